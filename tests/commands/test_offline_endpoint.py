import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request

COMMAND = [sys.executable, "-m", "gagar_cli", "offline-endpoint"]


def test_it_says_where_it_listens_answers_and_ends_on_sigterm():
    with subprocess.Popen(
        [*COMMAND, "--port", "0"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        line = process.stderr.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+/v1", line)[0]
        with urllib.request.urlopen(f"{url}/models") as response:
            models = json.load(response)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=20)
    assert "not a language model" in line
    assert models["data"][0]["id"] == "offline"
    assert process.returncode in (130, 143)
    assert out == ""


def test_a_port_in_use_is_an_error_with_a_hint():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run([*COMMAND, "--port", port], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot listen on 127.0.0.1:{port}: address already in use")
    assert "hint: choose another --port" in done.stderr


def test_a_port_is_required():
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "--port" in done.stderr
