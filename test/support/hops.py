"""Traces the hops to an address: sends one packet for each TTL or hop limit, and prints who answered, as JSON.

Usage: hops.py udp|tcp ADDRESS PORT LAST_TTL SECONDS_PER_HOP

The socket is connected, so that the kernel takes an error only if it quotes what was sent: ip(7) "IP_RECVERR".
"""
import errno
import json
import select
import socket
import struct
import sys
import time

protocol, address, port, last, patience = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
v6 = ':' in address
IP_RECVERR, IPV6_RECVERR, MSG_ERRQUEUE = 11, 25, 0x2000
ORIGIN_ICMP, ORIGIN_ICMP6 = 2, 3


def opened(ttl):
    kind = socket.SOCK_DGRAM if protocol == 'udp' else socket.SOCK_STREAM
    s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, kind)
    s.setblocking(False)
    if v6:
        s.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, ttl)
    else:
        s.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
    return s


def read_error(s):
    """The error with its sender, if the kernel has one. Layout: struct sock_extended_err, then the offender's address."""
    try:
        _, ancillary, _, _ = s.recvmsg(2048, 512, MSG_ERRQUEUE)
    except OSError:
        return None
    for _, kind, data in ancillary:
        if kind not in (IP_RECVERR, IPV6_RECVERR) or len(data) < 16:
            continue
        _, origin, icmp_type, code = struct.unpack('=IBBB', data[:7])
        if origin not in (ORIGIN_ICMP, ORIGIN_ICMP6):
            continue
        offender = data[16:]
        sender = socket.inet_ntop(socket.AF_INET6, offender[8:24]) if v6 else socket.inet_ntop(socket.AF_INET, offender[4:8])
        return {'from': sender, 'type': icmp_type, 'code': code}
    return None


def read_answer(s):
    if protocol == 'udp':
        try:
            return {'reply': s.recv(2048).decode('latin1')}
        except OSError:
            return None
    problem = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if problem == 0:
        return {'reply': 'connected'}
    return {'reply': errno.errorcode[problem]} if problem == errno.ECONNREFUSED else None


def probe(ttl):
    s = opened(ttl)
    try:
        s.connect((address, port))
    except BlockingIOError:
        pass
    if protocol == 'udp':
        s.send(b'hop')
    poll = select.poll()
    poll.register(s, select.POLLIN if protocol == 'udp' else select.POLLOUT)
    end = time.monotonic() + patience
    while time.monotonic() < end:
        events = poll.poll(max(1, (end - time.monotonic()) * 1000))
        if not events:
            break
        found = read_error(s) or read_answer(s)
        if found:
            return found
    return {'silent': True}


hops = []
for ttl in range(1, last + 1):
    hops.append(probe(ttl))
    if 'reply' in hops[-1] or hops[-1].get('code', 0) != 0:
        break
print(json.dumps(hops))
