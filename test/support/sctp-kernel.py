"""SCTP of the kernel (sctp(7)), where it has it: `server PORT` echoes, `client ADDRESS PORT` says its lines and writes what comes back."""
import socket
import sys
import threading

SCTP = socket.IPPROTO_SCTP


def serve(port):
    listening = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, SCTP)
    listening.bind(("::", port))
    listening.listen(16)
    while True:
        accepted, _ = listening.accept()
        threading.Thread(target=echo, args=(accepted,), daemon=True).start()


def echo(accepted):
    while message := accepted.recv(4096):
        accepted.sendall(message)


def ask(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    talking = socket.socket(family, socket.SOCK_STREAM, SCTP)
    talking.connect((address, port))
    threading.Thread(target=hear, args=(talking,), daemon=True).start()
    for line in sys.stdin:
        talking.sendall(line.encode())


def hear(talking):
    while message := talking.recv(4096):
        print(message.decode(), end="", flush=True)


if sys.argv[1] == "server":
    serve(int(sys.argv[2]))
else:
    ask(sys.argv[2], int(sys.argv[3]))
