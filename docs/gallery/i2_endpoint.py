"""A model behind an address

A model on a server is asked by HTTP, in batches, and never twice for the same row. Here the server runs in
this very script; yours has an address of its own.
"""

# %%
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np

import durometer as du


class Scores(BaseHTTPRequestHandler):
    """Stands for your server."""

    def do_POST(self):
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
        x = np.asarray(rows)
        body = json.dumps({"predictions": np.stack([1 - x[:, 0], x[:, 0]], 1).tolist()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Scores)
threading.Thread(target=server.serve_forever, daemon=True).start()

# %%
# At most 20,000 rows may be sent; a header could hold `${TOKEN}`, which is read from the environment.
address = f"http://127.0.0.1:{server.server_port}/"
model = du.wrap(remote=du.Endpoint(address, questions=20_000), answers="probabilities")
x = np.random.default_rng(0).uniform(size=(60, 3))
data = du.Dataset(x, x[:, 0] > 0.5)
report = du.evaluate(model, data, space=du.Linf(0.1), attack=du.Square(50), progress=False)
server.shutdown()
print("robust, at most", report.metric("robust"))
print("rows sent", model.source.asked)

# %%
# Which rows fell? Those near the border, of course.
report.plot.verdicts()
