import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, it } from 'vitest';

/*
 * The kernel's numbers in src/netlink, compared with the headers of this host: flags of open(2), options of sockets and the like differ
 * between architectures.
 */

const rooms = ['src/netlink', 'src/netlink/wireguard', 'src/base/files', 'src/cni-shim'].map((room) =>
  resolve(import.meta.dirname, '..', '..', room),
);
const folder = mkdtempSync(join(tmpdir(), 'seine-numbers-'));
afterAll(() => rmSync(folder, { recursive: true }));

const headers = [
  ...['errno.h', 'fcntl.h', 'sched.h', 'sys/mount.h', 'sys/socket.h', 'netinet/in.h', 'sys/vfs.h'],
  ...[
    'asm/socket.h',
    'linux/magic.h',
    'linux/nsfs.h',
    'linux/sockios.h',
    'linux/ethtool.h',
    'linux/if.h',
    'linux/if_addr.h',
    'linux/if_link.h',
  ],
  ...['linux/netlink.h', 'linux/rtnetlink.h', 'linux/genetlink.h', 'linux/neighbour.h', 'linux/net_namespace.h', 'linux/fib_rules.h'],
  ...[
    'linux/veth.h',
    'linux/wireguard.h',
    'linux/openvswitch.h',
    'linux/netconf.h',
    'linux/sock_diag.h',
    'linux/inet_diag.h',
    'linux/netfilter/x_tables.h',
    'linux/netfilter_ipv4/ip_tables.h',
  ],
  ...['nfnetlink.h', 'nfnetlink_conntrack.h', 'nf_tables.h'].map((name) => `linux/netfilter/${name}`),
];

/** Numbers of our own, which no header has under that name. */
const ours = new Set([
  ...['AT_ONCE', 'DEFAULT_CHECK_MS', 'ECHO_HEADER', 'FIRST_TABLE', 'IFINFOMSG_LENGTH', 'OVS_HEADER_BYTES', 'PACKET_BYTES_MAX'],
  ...['INFO_BYTES', 'SIZE_AT', 'ENTRIES_AT', 'TARGET_NAME_BEFORE', 'SOCKET_ID_BYTES', 'SOURCE_PORT_AT', 'NETCONFMSG_BYTES'],
  ...[
    'RTGENMSG_LENGTH',
    'RTMSG_LENGTH',
    'RULE_PRIORITY',
    'RULE_HEADER_LENGTH',
    'NO_SUPPRESSION',
    'TOKEN_BYTES',
    'TYPE_MASK',
    'PORT_AT',
    'PEER_PORT_AT',
    'ADDRESS_AT',
  ],
  // Theirs under another name.
  ...[
    'CT_NEW',
    'CT_GET',
    'CT_DELETE',
    'ICMPV6',
    'PMTUDISC_PROBE',
    'NFTA_TABLE',
    'CTA_FILTER',
    'CTA_FILTER_ORIG_FLAGS',
    'CTA_FILTER_REPLY_FLAGS',
  ],
]);

/** `const NAME = number;` of all sources except tests. */
function written(): Map<string, number> {
  const files = rooms.flatMap((room) => readdirSync(room).map((name) => join(room, name)));
  const sources = files.filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'));
  const pattern = /^(?:export )?const ([A-Z][A-Z0-9_]+) = (0x[0-9a-f_]+|0o[0-7]+|[0-9_]+);/gm;
  const found = sources.flatMap((path) => Array.from(readFileSync(path, 'utf8').matchAll(pattern)));
  return new Map(found.map(([, name = '', digits = '']) => [name, Number(digits.replaceAll('_', ''))]));
}

/** Values in C, by the host's own headers. */
function inHeaders(names: readonly string[]): Map<string, number> {
  const source = join(folder, 'numbers.c');
  const program = join(folder, 'numbers');
  const lines = names.map((name) => `  printf("%s %llu\\n", "${name}", (unsigned long long)${name});`);
  const includes = ['stdio.h', ...headers].map((name) => `#include <${name}>`);
  writeFileSync(source, ['#define _GNU_SOURCE', ...includes, 'int main(void) {', ...lines, '}', ''].join('\n'));
  const compiled = spawnSync('cc', ['-w', '-o', program, source], { encoding: 'utf8' });
  expect(compiled.stderr).toBe('');
  const rows = execFileSync(program, { encoding: 'utf8' }).trim().split('\n');
  return new Map(rows.map((row) => [row.split(' ')[0] ?? '', Number(row.split(' ')[1])]));
}

it('writes the kernel’s numbers as the headers of this architecture do', () => {
  const theirs = new Map([...written()].filter(([name]) => !ours.has(name)));
  expect(theirs.size).toBeGreaterThan(80);
  expect(inHeaders([...theirs.keys()])).toEqual(theirs);
});
