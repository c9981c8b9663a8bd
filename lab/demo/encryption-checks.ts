import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Family } from '../../src/base/net/ip.ts';
import { inNetns } from '../machine/netns.ts';
import { crossNodeTrials } from './connectivity-checks.ts';
import { type DemoCheck, type DemoLab, eventually, tryAll, type Verdict } from './scene.ts';

const wireGuardPort = 51_820;
/** An attempt takes three seconds if it fails. */
const attemptsMax = 5;

/** Checks with a capture on every link between nodes that no packet of a pod is sent without encryption. */
export function encryptionChecks(lab: DemoLab, family: Family): DemoCheck[] {
  if (lab.plan.encryption === undefined || lab.plan.nodes.length < 2) return [];
  return [{ name: `cleartext.none.${family}`, run: () => withoutCleartext(lab, family) }];
}

/** Waits until nodes have each other's keys: pods of different nodes do not reach each other before. The check that follows reports a failure. */
export async function untilEncrypted(lab: DemoLab): Promise<void> {
  if (lab.plan.encryption === undefined || lab.plan.nodes.length < 2) return;
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const results = await Promise.all(lab.plan.families.map((family) => tryAll(crossNodeTrials(lab, family))));
    if (results.every(({ ok }) => ok)) return;
  }
}

async function withoutCleartext(lab: DemoLab, family: Family): Promise<Verdict> {
  const lines: string[] = [];
  const captures = await Promise.all(lab.plan.nodes.map(({ netns }) => capture(netns, lab.plan.podCidrs, (line) => lines.push(line))));
  const traffic = await eventually(() => tryAll(crossNodeTrials(lab, family)));
  await Promise.all(captures.map(ended));
  const clear = lines.filter((line) => !line.includes(`.${wireGuardPort}`));
  const encrypted = lines.length - clear.length;
  const first = clear[0] === undefined ? '' : `: ${clear[0]}`;
  const detail = `${encrypted} encrypted packets on ${captures.length} links, ${clear.length} others${first}`;
  return { ok: traffic.ok && clear.length === 0 && encrypted > 0, detail: traffic.ok ? detail : traffic.detail };
}

/** Starts a capture of everything that is encrypted, in the tunnel, or has the address of a pod. */
async function capture(netns: string, podCidrs: readonly string[], heard: (line: string) => void): Promise<ChildProcess> {
  const filter = [`udp port ${wireGuardPort}`, 'udp port 6081', ...podCidrs.map((cidr) => `net ${cidr}`)].join(' or ');
  const { command, args } = inNetns(netns, 'tcpdump', ['-i', 'eth0', '-n', '-l', '--immediate-mode', '-p', filter]);
  const process = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  process.stdout.setEncoding('utf8').on('data', (text: string) => text.split('\n').filter(Boolean).forEach(heard));
  await once(process.stderr, 'data'); // it listens
  return process;
}

async function ended(process: ChildProcess): Promise<void> {
  const exit = once(process, 'exit');
  if (process.exitCode === null && process.kill('SIGINT')) await exit;
}
