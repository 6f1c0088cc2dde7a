"""The demo's scene for Mitsuba: a golden ball, a ring of coloured ones, one turn of the camera.

Run by the farm's Mitsuba runner: ``build`` is called for every frame.
"""

import colorsys
import math

import mitsuba as mi

BALLS = 9


def build(frame, first, last, parameters):
    """The scene of one frame as a Mitsuba dictionary."""
    turn = (frame - first) / max(1, last - first + 1)
    angle = 2 * math.pi * turn
    eye = [6.2 * math.cos(angle), 6.2 * math.sin(angle), 2.6]
    scene = {
        "type": "scene",
        "integrator": {"type": "path", "max_depth": 6},
        "sensor": {
            "type": "perspective",
            "fov": 42,
            "to_world": mi.ScalarTransform4f().look_at(origin=eye, target=[0, 0, 0.75], up=[0, 0, 1]),
            "film": {"type": "hdrfilm", "width": 320, "height": 180, "rfilter": {"type": "gaussian"}},
            "sampler": {"type": "independent", "sample_count": 16},
        },
        "sky": {"type": "constant", "radiance": {"type": "rgb", "value": [0.35, 0.45, 0.65]}},
        "sun": {
            "type": "sphere",
            "center": [3.5, -4.0, 6.0],
            "radius": 1.1,
            "emitter": {"type": "area", "radiance": {"type": "rgb", "value": [26, 22, 16]}},
        },
        "floor": {
            "type": "rectangle",
            "to_world": mi.ScalarTransform4f().scale([14, 14, 1]),
            "bsdf": {
                "type": "diffuse",
                "reflectance": {
                    "type": "checkerboard",
                    "color0": {"type": "rgb", "value": [0.10, 0.10, 0.12]},
                    "color1": {"type": "rgb", "value": [0.55, 0.53, 0.50]},
                    "to_uv": mi.ScalarTransform4f().scale([14, 14, 1]),
                },
            },
        },
        "gold": {
            "type": "sphere",
            "center": [0, 0, 1.1],
            "radius": 1.1,
            "bsdf": {"type": "roughconductor", "material": "Au", "alpha": 0.08},
        },
    }
    for index in range(BALLS):
        place = 2 * math.pi * index / BALLS - 2 * angle
        hop = 0.45 * abs(math.sin(2 * math.pi * (2 * turn + index / BALLS)))
        red, green, blue = colorsys.hsv_to_rgb(index / BALLS, 0.75, 0.85)
        scene[f"ball{index}"] = {
            "type": "sphere",
            "center": [2.3 * math.cos(place), 2.3 * math.sin(place), 0.38 + hop],
            "radius": 0.38,
            "bsdf": {
                "type": "plastic",
                "diffuse_reflectance": {"type": "rgb", "value": [red, green, blue]},
            },
        }
    return scene
