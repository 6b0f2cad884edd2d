"""One file per element type: pure functions on scalars of at most two links, values and derivatives with respect to their twists.

Conventions shared by all files here. A twist `(w, v)` moves a link by `dH = [w]x H + v e4'`. A natural force `Y` (3x4) pulls back to the
wrench `(sum_c H_c x Y_c, Y_4)`: torque about the world's origin, then force. A 6x6 block maps a twist to the change of a wrench.

Interval elements act between node L and node R = L + 1 and return what they contribute to the discrete equations of both nodes
(DESIGN section 3): at L `V E - (h/2) F`, at R `-V E - (h/2) F`. Node elements (constraints) see one node.
"""
