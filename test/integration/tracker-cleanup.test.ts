import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { inside, type Lab, withNamespaces } from './netlink-fixture.ts';

const root = join(import.meta.dirname, '../..');
const parameters = ['nf_conntrack_acct', 'nf_conntrack_timestamp'] as const;

const valuesIn = (lab: Lab): readonly string[] =>
  parameters.map((parameter) => inside(lab, 'cat', `/proc/sys/net/netfilter/${parameter}`).trim());

it('restores parameters of connection tracking that a killed agent changed for the flow log', async () => {
  await withNamespaces(1, (lab) => {
    const folder = mkdtempSync(join(tmpdir(), 'seine-tracker-cleanup-'));
    try {
      for (const parameter of parameters) inside(lab, 'sysctl', '-q', '-w', `net.netfilter.${parameter}=0`);
      const agent = `
        import { silentLog } from '${root}/src/base/log/log.ts';
        import { TrackerAccounting, trackerParametersFile } from '${root}/src/operations/flow-log/sources/tracker-accounting.ts';
        new TrackerAccounting({ file: trackerParametersFile('${folder}/state'), log: silentLog }).turnOn();
        process.kill(process.pid, 'SIGKILL');`;
      expect(() => inside(lab, process.execPath, '--input-type=module-typescript', '-e', agent)).toThrow();
      expect(valuesIn(lab)).toEqual(['1', '1']);

      const places = ['state', 'run', 'bin', 'conf', 'ovs'].map((name) => join(folder, name)) as [string, string, string, string, string];
      const [state, run, bin, conf, ovs] = places;
      const flags = ['--state-dir', state, '--run-dir', run, '--cni-bin-dir', bin, '--cni-conf-dir', conf, '--ovs-run-dir', ovs];
      const cleanup = (...more: readonly string[]) =>
        inside(lab, process.execPath, join(root, 'src/seinectl/main.ts'), 'node', 'cleanup', ...flags, ...more);
      const line = 'change of net.netfilter.nf_conntrack_acct by the flow log: 0 again';
      expect(cleanup()).toContain(`would remove  ${line}`);
      expect(valuesIn(lab)).toEqual(['1', '1']);
      expect(JSON.parse(readFileSync(join(state, 'tracker-parameters.json'), 'utf8'))).toMatchObject({
        values: { nf_conntrack_acct: '0' },
      });

      expect(cleanup('--yes', '--force')).toContain(`removed  ${line}`);
      expect(valuesIn(lab)).toEqual(['0', '0']);
      expect(cleanup('--yes', '--force')).not.toContain('nf_conntrack');
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
