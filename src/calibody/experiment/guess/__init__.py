"""From a model and a log to a first experiment file: which column is what, in which unit, how noisy, and what such a recording can tell.

    names.py     what a column's name says
    columns.py   which channel each column is: by name, by order, by number
    numbers.py   clocks, units and noise from the values
    physics.py   whether the torques are those that the motion needs: units, signs, hold, first values of friction and payload
    unknowns.py  what to estimate, as far as the recording determines it
    writing.py   the commented file
    new.py       all of it, in order

Every guess is kept with its reason and with how sure it is, and is printed and written beside what it decided.
"""
