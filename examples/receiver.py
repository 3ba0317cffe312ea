"""Receives Linger's callbacks and prints each job. LINGER_SECRETS has one secret, or two while you rotate. It listens on
the address in LISTEN (127.0.0.1; in a container use 0.0.0.0) and the port in PORT (8000)."""
import base64, hmac, http.server, os, time

KEYS = [base64.b64decode(secret.removeprefix("whsec_")) for secret in os.environ["LINGER_SECRETS"].split()]

class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        header = lambda name: self.headers.get(name, "")
        body = self.rfile.read(int(header("content-length")))
        signed = f"{header('webhook-id')}.{header('webhook-timestamp')}.".encode() + body
        ours = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in KEYS]
        known = any(hmac.compare_digest(a, b) for a in header("webhook-signature").encode().split() for b in ours)
        accepted = known and abs(time.time() - int(header("webhook-timestamp"))) <= 300
        print(header("linger-job"), body.decode() if accepted else "refused", flush=True)
        self.send_response(204 if accepted else 401)
        self.end_headers()

address = (os.environ.get("LISTEN", "127.0.0.1"), int(os.environ.get("PORT", 8000)))
http.server.ThreadingHTTPServer(address, Receiver).serve_forever()
