"""Opens connections, and prints how each ended and after how many milliseconds: JSON, a list of pairs.

Arguments: protocol (tcp, udp, sctp), address, port, seconds to wait for each, count, attempts per second (0: one after another).
"""
import errno, json, select, socket, sys, time

protocol, address, port, patience, count, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
# linux/in.h, linux/in6.h: a socket of SCTP learns of ICMP errors only with these
IP_RECVERR, IPV6_RECVERR = 11, 25


def begin():
    s = socket.socket(family, kind, socket.IPPROTO_SCTP if protocol == "sctp" else 0)
    if protocol == "sctp":
        s.setsockopt(*((socket.IPPROTO_IPV6, IPV6_RECVERR) if ":" in address else (socket.IPPROTO_IP, IP_RECVERR)), 1)
    s.setblocking(False)
    code = s.connect_ex((address, port))
    if protocol == "udp":
        code = 0
        try:
            s.send(b"asked")
        except OSError as error:
            code = error.errno
    return s, code


def end(s):
    if protocol == "udp":
        try:
            s.recv(1500)
            return "answered"
        except OSError as error:
            return errno.errorcode[error.errno]
    code = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return errno.errorcode[code] if code else "connected"


ended = []
waiting = {}
poll = select.epoll()
started = time.monotonic()
made = 0
while made < count or waiting:
    now = time.monotonic()
    due = made < count and (not waiting if rate == 0 else now >= started + made / rate)
    if due:
        made += 1
        s, code = begin()
        if code not in (0, errno.EINPROGRESS):
            ended.append([errno.errorcode[code], 0])
            s.close()
            continue
        waiting[s.fileno()] = (s, now)
        poll.register(s.fileno(), select.EPOLLIN if protocol == "udp" else select.EPOLLOUT | select.EPOLLERR)
        continue
    deadline = min([begun + patience for _, begun in waiting.values()] + ([started + made / rate] if rate and made < count else []))
    for number, _ in poll.poll(max(0, deadline - now)):
        s, begun = waiting.pop(number)
        ended.append([end(s), round((time.monotonic() - begun) * 1000, 3)])
        s.close()
    now = time.monotonic()
    for number, (s, begun) in list(waiting.items()):
        if now - begun >= patience:
            ended.append(["silent", None])
            del waiting[number]
            s.close()
print(json.dumps(ended))
