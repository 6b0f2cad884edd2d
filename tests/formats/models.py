"""Small model files that together use every way of writing the numbers that calibody reads."""

RICH = """<?xml version="1.0" encoding="utf-8"?>
<!-- a comment -->
<mujoco model="rich">
  <compiler angle="degree" eulerseq="xyz" autolimits="true"/>
  <option gravity="0 0 -9.81" timestep="0.002"/>
  <default>
    <joint damping="0.05"/>
    <default class="stiff"><joint stiffness="3" frictionloss="0.2" armature="0.01"/></default>
    <motor gear="2"/>
  </default>
  <worldbody>
    <geom type="plane" size="1 1 .1"/>
    <site name="origin"   pos="0 0 1" euler="0 0 30"/>
    <body name="base" pos="0 0 1" euler="10 20 30">
      <joint name="turn" axis="0 0 1" ref="30" springref="12" class="stiff" range="-90 90"/>
      <joint type="slide" name='lift' axis="0 1 0" pos=".1 .2 .3" ref="0.1" springref="0.05" stiffness="7"/>
      <inertial pos="0.1 0 0" mass="2" diaginertia="0.02 0.03 0.04" euler="0 0 45"/>
      <geom name="rod" type="capsule" fromto="0 0 0 0.5 0 0" size="0.02"/>
      <site name="marker" pos="0.5 0 0"/>
      <frame pos="1 0 0" euler="0 90 0">
        <site name="framed" pos="0 0.1 0"/>
        <body name="arm" pos="0 0 0.5" quat="1 0 0 0">
          <joint name="elbow" axis="1 0 0"/>
          <frame euler="0 0 90"><joint name="wrist" type="hinge" axis="0 1 1" pos="0.1 0 0"/></frame>
          <geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0" density="500"/>
        </body>
      </frame>
    </body>
    <body name="ball" pos="2 0 1"><joint name="socket" type="ball" stiffness="0.5" pos="0 0 .2"/>
      <inertial pos="0 0 0" mass="1" fullinertia="0.01 0.02 0.015 0.001 0.002 0.003"/><geom size="0.1"/></body>
    <body name="flyer" pos="0 3 2" axisangle="0 0 1 40"><freejoint/><inertial pos="0 0 .1" mass="0.5" diaginertia=".001 .001 .002"/></body>
    <body><joint/><geom size="0.1" pos="0.3 0 0"/></body>
  </worldbody>
  <equality>
    <connect name="pin" body1="arm" body2="ball" anchor="0.1 0 0"/>
    <weld name="glue" body1="flyer" body2="base"/>
    <joint name="couple" joint1="elbow" joint2="turn" polycoef="0.1 0.5 0 0 0"/>
    <connect name="loose" body1="arm" anchor="0 0 0" active="false"/>
  </equality>
  <actuator>
    <motor name="motor" joint="turn" ctrlrange="-1 1"/>
    <position name="servo" joint="elbow" kp="20" dampratio="1"/>
    <velocity name="speed" joint="lift" kv="4" gear="3"/>
    <general name="drive" joint="wrist" gainprm="2" biastype="affine" biasprm="0.1 -3 -0.2" damping="0.4" armature="0.3" gear="2"/>
  </actuator>
  <sensor>
    <jointpos name="angle" joint="turn" noise="0.01"/>
    <jointpos joint="lift"/>
    <jointvel name="rate" joint="turn"/>
    <framepos name="where" objtype="site" objname="marker"/>
    <framepos name="centre" objtype="body" objname="arm"/>
    <gyro name="gyro" site="marker"/>
    <magnetometer name="compass" site="marker"/>
  </sensor>
</mujoco>
"""

URDF = """<?xml version="1.0"?>
<robot name="arm">
  <!-- the base does not move -->
  <link name="base"/>
  <link name="upper">
    <inertial>
      <origin xyz="0 0 0.1" rpy="0.1 0.2 0.3"/>
      <mass value="2"/>
      <inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0.002" izz="0.04"/>
    </inertial>
    <visual><geometry><mesh filename="package://nowhere/upper.stl"/></geometry></visual>
    <collision><geometry><box size="0.1 0.1 0.4"/></geometry></collision>
  </link>
  <link name="lower"><inertial><mass value="1"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial></link>
  <link name="tip"/>
  <joint name="shoulder" type="revolute">
    <origin xyz="0 0 1" rpy="0 0.5 0"/><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="10" velocity="2"/><dynamics damping="0.3" friction="0.2"/>
  </joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/><mimic joint="shoulder" multiplier="2" offset="0.1"/></joint>
  <joint name="fix" type="fixed"><origin xyz="0 0 0.3"/><parent link="lower"/><child link="tip"/></joint>
  <transmission name="t"/>
</robot>
"""
