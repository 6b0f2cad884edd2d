"""Shooting in MuJoCo's engine, a black box."""
