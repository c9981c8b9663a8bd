import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';

/** Loading of modules for a container that may not load any (docs/install.md, "Kernel modules"). */
const run = (command: string, ...args: readonly string[]): string => execFileSync(command, args, { encoding: 'utf8', stdio: 'pipe' });

const loaded = (): ReadonlySet<string> =>
  new Set(
    run('lsmod')
      .split('\n')
      .map((line) => line.split(' ', 1)[0] ?? ''),
  );

/** With NET_ADMIN alone, as in the containers of the manifest, and no means to gain more. */
const asContainer = (...command: readonly string[]): string =>
  run('setpriv', '--bounding-set=-all,+net_admin', '--inh-caps=-all', '--no-new-privs', ...command);

it.each([
  ['openvswitch', ['ovs-dpctl', 'add-dp', 'seine-modules'], ['ovs-dpctl', 'del-dp', 'seine-modules']],
  ['geneve', ['ip', 'link', 'add', 'seine-gnv', 'type', 'geneve', 'external', 'dstport', '6999'], ['ip', 'link', 'del', 'seine-gnv']],
  ['vxlan', ['ip', 'link', 'add', 'seine-vxl', 'type', 'vxlan', 'external', 'dstport', '6998'], ['ip', 'link', 'del', 'seine-vxl']],
])('loads %s with NET_ADMIN and without SYS_MODULE', (module, use, undo) => {
  run('modprobe', '-r', 'vport_geneve', 'vport_vxlan', 'vport_gre', module);
  expect(loaded()).not.toContain(module);
  expect(asContainer('grep', 'CapEff', '/proc/self/status')).toContain('0000000000001000');
  asContainer(...use);
  expect(loaded()).toContain(module);
  run(undo[0] ?? '', ...undo.slice(1));
});
