import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { nodePaths } from '../../lab/plan/names.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';

const found = /other firewall rules drop/;

/** An accept in Seine's table does not undo a drop in another. */
describe('other firewall rules', () => {
  let lab: ConvergeLab;

  beforeAll(async () => {
    lab = await ConvergeLab.start(1);
    await lab.startPods();
  });
  afterAll(async () => {
    await lab?.remove();
  });

  const run = (command: string) => lab.exec(1, 'sh', '-c', command);
  const warnings = (): readonly string[] => lab.log(1).flatMap(({ msg }) => (found.test(msg) ? [msg] : []));
  const reaches = async () => (await run('ping -c 1 -W 1 10.244.0.1 >/dev/null && echo yes || echo no')).trim();

  /** Executes it and waits for a new report. @returns the report */
  async function linesMatching(command: string, what: RegExp): Promise<readonly string[]> {
    const before = lab.log(1).length;
    await run(command);
    await until(
      () =>
        lab
          .log(1)
          .slice(before)
          .some(({ msg }) => what.test(msg)),
      20_000,
      () => `nothing said after ${command}`,
    );
    return lab
      .log(1)
      .slice(before)
      .map(({ msg }) => msg);
  }

  it('with a policy of drop are found, and the suggested rule works', async () => {
    const news = await linesMatching(
      'nft add table inet site; nft "add chain inet site forward { type filter hook forward priority 0; policy drop; }"',
      found,
    );
    const reported = news.filter((msg) => found.test(msg));
    expect(reported, 'one for each family, and none before').toEqual(warnings());
    expect(reported).toHaveLength(2);
    const [rule, back] = [...(reported[0] ?? '').matchAll(/nft insert rule inet site forward [^;]+/g)].map(([match]) => match);
    expect([rule, back]).toEqual([
      'nft insert rule inet site forward iifname antrea-gw0 accept',
      'nft insert rule inet site forward oifname antrea-gw0 accept',
    ]);
    await linesMatching(`${rule}; ${back}`, /other firewall rules no longer drop/);
    await run('nft delete table inet site');
  });

  it('of iptables are found too, for packets to the node', async () => {
    const news = await linesMatching('iptables -P INPUT ACCEPT; iptables -A INPUT -i antrea-gw0 -p udp -j DROP', found);
    expect(news.filter((msg) => found.test(msg))).toEqual([expect.stringContaining('iptables -I INPUT -i antrea-gw0 -j ACCEPT')]);
    await linesMatching('iptables -F INPUT', /other firewall rules no longer drop/);
  });

  it('are changed only if configured, with the same commands, and never cut the node off', async () => {
    const { agentConfig } = nodePaths(lab.plan.dir, lab.node(1).name);
    writeFileSync(agentConfig, stringify({ ...parse(readFileSync(agentConfig, 'utf8')), hostFirewall: 'manage' }));
    await lab.agent(1, 'stop');
    await run('iptables -P FORWARD DROP');
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    await until(
      async () => (await run('iptables -S FORWARD')).includes('-A FORWARD -i antrea-gw0'),
      20_000,
      () => 'no rule is added',
    );
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-1'));
    expect(await reaches()).toBe('yes');
    const rules = await run('iptables -S FORWARD');
    await lab.agent(1, 'stop');
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-1'));
    expect(await run('iptables -S FORWARD')).toBe(rules);
    expect((await lab.reach(lab.pod('host-1'), lab.pod('web-1').ips[0] ?? '')).is).toBe('OK');
  });
});
