"""The demo's scene for Blender: a golden ball, a ring of coloured ones, one turn of the camera.

Run by the farm's Blender runner in an empty file; works from Blender 3.4 to 5.x.
"""

import colorsys
import math

import bpy

BALLS = 9
FRAMES = int(globals().get("parameters", {}).get("frames", 36))


def material(name, colour, metallic, roughness):
    """A principled material."""
    made = bpy.data.materials.new(name)
    made.use_nodes = True
    shader = next(node for node in made.node_tree.nodes if node.type == "BSDF_PRINCIPLED")
    shader.inputs["Base Color"].default_value = (*colour, 1.0)
    shader.inputs["Metallic"].default_value = metallic
    shader.inputs["Roughness"].default_value = roughness
    return made


def ball(name, radius, place, surface):
    """A smooth ball."""
    bpy.ops.mesh.primitive_uv_sphere_add(segments=48, ring_count=24, radius=radius, location=place)
    made = bpy.context.object
    made.name = name
    made.data.materials.append(surface)
    for face in made.data.polygons:
        face.use_smooth = True
    return made


def key(thing, frame, place):
    """One key of its place."""
    thing.location = place
    thing.keyframe_insert("location", frame=frame)


for thing in list(bpy.data.objects):
    bpy.data.objects.remove(thing, do_unlink=True)
scene = bpy.context.scene
scene.frame_start, scene.frame_end = 1, FRAMES

world = bpy.data.worlds.new("sky")
world.use_nodes = True
background = next(node for node in world.node_tree.nodes if node.type == "BACKGROUND")
background.inputs[0].default_value = (0.35, 0.45, 0.65, 1.0)
background.inputs[1].default_value = 0.6
scene.world = world

bpy.ops.mesh.primitive_plane_add(size=40)
bpy.context.object.data.materials.append(material("floor", (0.22, 0.21, 0.20), 0.0, 0.7))
ball("gold", 1.1, (0, 0, 1.1), material("gold", (1.0, 0.70, 0.22), 1.0, 0.12))

ring = [
    ball(
        f"ball{i}",
        0.38,
        (0, 0, 0),
        material(f"m{i}", colorsys.hsv_to_rgb(i / BALLS, 0.75, 0.85), 0.0, 0.25),
    )
    for i in range(BALLS)
]
lamp = bpy.data.objects.new("sun", bpy.data.lights.new("sun", "AREA"))
lamp.data.energy, lamp.data.size = 900, 2.5
lamp.location, lamp.rotation_euler = (3.5, -4.0, 6.0), (math.radians(45), 0, math.radians(41))
scene.collection.objects.link(lamp)

aim = bpy.data.objects.new("aim", None)
aim.location = (0, 0, 0.75)
scene.collection.objects.link(aim)
camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
camera.data.angle = math.radians(48)
track = camera.constraints.new("TRACK_TO")
track.target, track.track_axis, track.up_axis = aim, "TRACK_NEGATIVE_Z", "UP_Y"
scene.collection.objects.link(camera)
scene.camera = camera

for frame in range(1, FRAMES + 1):
    turn = (frame - 1) / FRAMES
    angle = 2 * math.pi * turn
    key(camera, frame, (6.2 * math.cos(angle), 6.2 * math.sin(angle), 2.6))
    for index, thing in enumerate(ring):
        place = 2 * math.pi * index / BALLS - 2 * angle
        hop = 0.45 * abs(math.sin(2 * math.pi * (2 * turn + index / BALLS)))
        key(thing, frame, (2.3 * math.cos(place), 2.3 * math.sin(place), 0.38 + hop))

scene.render.engine = "CYCLES"
scene.cycles.samples = 12
scene.cycles.use_denoising = False
scene.render.resolution_x, scene.render.resolution_y = 320, 180
scene.render.resolution_percentage = 100
