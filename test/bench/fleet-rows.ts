import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

const nodes = 5_000;
/** Time until the relay that is started in a container answers, API server and kubelet included. */
const agentMs = 50;
/** Exit code for an incomplete answer. */
const INCOMPLETE = 3;
const runs = 3;

export const fleetRowNames = ['fleet.status5000', 'fleet.status5000.cpu', 'fleet.rss5000'];

/** `seinectl cluster status` of 5,000 agents, of which 3 % do not answer and 1 % return false data, with a server that answers for all of them over TLS: duration, CPU time, maximum memory. */
export async function fleetRows({ print }: SceneOptions): Promise<readonly Measured[]> {
  print(`a fleet of ${nodes} agents that take ${agentMs} ms each`);
  const folder = mkdtempSync(join(tmpdir(), 'seine-fleet-bench-'));
  let server: ChildProcess | undefined;
  try {
    const [key, cert, kubeconfig] = ['key.pem', 'cert.pem', 'kubeconfig'].map((name) => join(folder, name)) as [string, string, string];
    await promisify(execFile)('openssl', [...selfSigned, '-keyout', key, '-out', cert]);
    server = spawn(process.execPath, [join(import.meta.dirname, 'fleet-server.ts'), String(nodes), String(agentMs), key, cert], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    writeFileSync(kubeconfig, kubeconfigText(await firstLineOf(server), cert));
    const seen: (readonly [seconds: number, cpuSeconds: number, mebibytes: number])[] = [];
    for (let run = 0; run < runs; run++) seen.push(await oneObservation(kubeconfig));
    return [
      { name: 'fleet.status5000', unit: 's', ours: seen.map(([seconds]) => seconds) },
      { name: 'fleet.status5000.cpu', unit: 's', ours: seen.map(([, seconds]) => seconds) },
      { name: 'fleet.rss5000', unit: 'MiB', ours: seen.map(([, , mebibytes]) => mebibytes) },
    ];
  } finally {
    server?.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

const selfSigned = [
  ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'],
  ...['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'],
];

async function firstLineOf({ stdout }: ChildProcess): Promise<string> {
  if (stdout !== null) for await (const line of createInterface(stdout)) return line;
  throw new Error('the fleet has no port');
}

function kubeconfigText(port: string, cert: string): string {
  const authority = readFileSync(cert).toString('base64');
  return JSON.stringify({
    clusters: [{ name: 'fleet', cluster: { server: `https://127.0.0.1:${port}`, 'certificate-authority-data': authority } }],
    users: [{ name: 'me', user: { token: 'secret' } }],
    contexts: [{ name: 'fleet', context: { cluster: 'fleet', user: 'me' } }],
    'current-context': 'fleet',
  });
}

/** Clock ticks of proc(5) in a second. */
const TICKS = 100;
const pollMs = 100;

async function oneObservation(kubeconfig: string): Promise<readonly [number, number, number]> {
  const program = join(import.meta.dirname, '..', '..', 'dist', 'seinectl.mjs');
  const startedMs = performance.now();
  const look = spawn(process.execPath, [program, 'cluster', 'status', '--kubeconfig', kubeconfig], { stdio: 'ignore' });
  const ended = new Promise<number | null>((resolve) => look.once('exit', resolve));
  let [cpu, peak] = [0, 0];
  while (look.exitCode === null) {
    await Promise.race([ended, sleep(pollMs)]);
    [cpu, peak] = usageOf(look.pid) ?? [cpu, peak];
  }
  const code = await ended;
  if (code !== INCOMPLETE) throw new Error(`seinectl cluster status ended with ${code}`);
  return [(performance.now() - startedMs) / 1_000, cpu, peak];
}

/** CPU time (s) and the maximum memory so far (MiB); undefined once it has ended. Source: proc(5). */
function usageOf(pid: number | undefined): [number, number] | undefined {
  try {
    const [, peak = '0'] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    const used: [number, number] = [(Number(fields[11]) + Number(fields[12])) / TICKS, Number(peak) / 1_024];
    return used[1] === 0 ? undefined : used;
  } catch {
    return undefined;
  }
}
