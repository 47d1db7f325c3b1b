"""A zero-sum game, solved and certified: where to send one's companies, and what an entropy does to the answer.

Run: python examples/matrix_game.py
"""

import numpy as np

import saddlery as sd

# Colonel Blotto: 5 companies over 3 fields; who has more on a field wins it, and the field counts one.
plans = np.array([(a, b, 5 - a - b) for a in range(6) for b in range(6 - a)])
wins = np.sign(plans[:, None, :] - plans[None, :, :]).sum(axis=2)
# The first field counts twice for the one who gains, so that the game is not fair.
gains = wins + (plans[:, None, 0] > plans[None, :, 0])

solution = sd.solve(sd.Game(gains), tol=1e-6)
certificate = solution.certificate
print(f"{len(plans)} plans each, {solution.status}")
print(f"the value of the game lies between {certificate.dual:.7f} and {certificate.primal:.7f}")
for name, weights in (("who pays", solution.w), ("who gains", solution.dual)):
    most = [f"{tuple(plans[k].tolist())} {weights[k]:.3f}" for k in np.argsort(-weights)[:4]]
    print(f"{name:9s} plays {', '.join(most)}")

# With an entropy for both, players spread over more plans; the game is solved faster, and the certificate speaks of this game.
for strength in (1.0, 0.1, 0.01):
    players = (sd.geometry.Simplex(len(plans), entropy=strength) for _ in range(2))
    smooth = sd.solve(sd.Game(gains, *players), tol=1e-8)
    exploited = sd.certify(sd.Game(gains), smooth.w, smooth.dual).gap
    pairs = smooth.trace[-1].counts["pairs"]
    print(f"entropy {strength:<5g} {pairs:5.0f} pairs of products, gap in the game without it {exploited:.5f}")
