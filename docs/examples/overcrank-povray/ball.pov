// A ball that jumps once while the clock runs from 0 to 1.
#version 3.7;
global_settings { assumed_gamma 1.0 }
camera { location <0, 1.2, -4> look_at <0, 0.8, 0> }
light_source { <3, 5, -4> rgb 1 }
background { rgb <0.35, 0.5, 0.7> }
sphere { <0, 0.5 + 4 * clock * (1 - clock), 0>, 0.5 pigment { rgb <0.9, 0.25, 0.1> } finish { phong 0.6 } }
plane { y, 0 pigment { checker rgb 0.9 rgb 0.4 } }
