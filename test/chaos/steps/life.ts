import { until } from '../host.ts';
import type { Lab, LabNode } from '../lab.ts';
import type { Random } from '../random.ts';
import { ofStart, type StepKind } from '../step.ts';

const frozenMs = 1_000;

function life(
  name: string,
  act: (lab: Lab, random: Random) => Promise<unknown>,
  more: Pick<StepKind, 'forgets' | 'harmless' | 'alerts'> = {},
): StepKind {
  return {
    name,
    changes: 'node',
    deadline: 'restarted',
    alone: true,
    ...more,
    draw: ({ lab }, random) => ({ what: '', act: () => act(lab, random) }),
  };
}

type Daemon = 'agentPid' | 'vswitchdPid' | 'ovsdbPid';

export async function signal(lab: Lab, daemon: Daemon, name: NodeJS.Signals): Promise<void> {
  const pid = (await lab.now())[daemon];
  if (pid === null) throw new Error(`there is no process for ${daemon}`);
  process.kill(pid, name);
}

export async function killed(lab: Lab, ...daemons: readonly Daemon[]): Promise<void> {
  for (const daemon of daemons) await signal(lab, daemon, 'SIGKILL');
  const gone = (node: LabNode): boolean => daemons.every((daemon) => node[daemon] === null);
  await until(
    async () => gone(await lab.now()),
    10_000,
    () => `${daemons.join()} lives on`,
  );
}

/** Stopped for a while, in which something may happen to it. */
export async function frozen<T>(lab: Lab, daemon: Daemon, meanwhile: () => Promise<T>): Promise<T> {
  await signal(lab, daemon, 'SIGSTOP');
  try {
    return await meanwhile();
  } finally {
    await signal(lab, daemon, 'SIGCONT');
  }
}

const pause = () => new Promise<void>((resolve) => setTimeout(resolve, frozenMs));
const startSwitch = (lab: Lab): Promise<void> => lab.pull(`ovs/${lab.tried.name}/start`);
export const startAgent = (lab: Lab): Promise<void> => lab.pull(`agents/${lab.tried.name}/start`);

const forgets = { forgets: true } as const;
const unconnected = ['SeineSwitchNotConnected'] as const;
const harmless = { harmless: true } as const;

export const lifeSteps: readonly StepKind[] = [
  life(
    'switch.killed',
    async (lab) => {
      await killed(lab, 'vswitchdPid');
      await startSwitch(lab);
    },
    { ...forgets, alerts: unconnected },
  ),
  life('switch.frozen', (lab) => frozen(lab, 'vswitchdPid', pause)),
  life('database.killed', async (lab) => {
    await killed(lab, 'ovsdbPid');
    await startSwitch(lab);
  }),
  life('database.frozen', (lab) => frozen(lab, 'ovsdbPid', pause), harmless),
  life('database.compacted', (lab) => lab.on('ovs-appctl', '-t', 'ovsdb-server', 'ovsdb-server/compact'), harmless),
  life(
    'both killed',
    async (lab) => {
      await killed(lab, 'vswitchdPid', 'ovsdbPid');
      await startSwitch(lab);
    },
    { ...forgets, alerts: unconnected },
  ),
  life(
    'everything killed',
    async (lab) => {
      await killed(lab, 'agentPid', 'vswitchdPid', 'ovsdbPid');
      await startSwitch(lab);
      await startAgent(lab);
    },
    { ...forgets, alerts: ofStart },
  ),
  life(
    'agent restarted',
    async (lab) => {
      await killed(lab, 'agentPid');
      await startAgent(lab);
    },
    { ...harmless, alerts: ofStart },
  ),
];
