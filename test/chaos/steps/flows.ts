import type { Random } from '../random.ts';
import type { Scene } from '../scene.ts';
import { nothingThere, type StepKind } from '../step.ts';

const ofctl = (scene: Scene, ...args: readonly string[]): Promise<string> => scene.lab.on('ovs-ofctl', '-O', 'OpenFlow15', ...args);

/** A flow of the tested bridge: its match, in the syntax of `ovs-ofctl`. @param isRight filter for lines of the dump */
async function someFlow(scene: Scene, random: Random, isRight: (line: string) => boolean = () => true): Promise<string> {
  const dump = await ofctl(scene, '--no-stats', 'dump-flows', 'br-int');
  const lines = dump.split('\n').filter((line) => line.includes(' actions=') && !/cookie=0x1?ff0/.test(line) && isRight(line));
  const picked = random.pick(lines.toSorted()).trim();
  const [match = ''] = picked.split(' actions=');
  return match
    .replace(/^cookie=\w+, /, '')
    .replaceAll(', ', ',')
    .replace(/send_flow_rem |reset_counts /g, '')
    .replaceAll(' ', '');
}

function flowFault(name: string, change: (scene: Scene, random: Random) => Promise<unknown>): StepKind {
  return {
    name: `flow.${name}`,
    changes: 'node',
    deadline: 'announced',
    part: 'bridge',
    draw: (scene, random) => ({ what: name, act: () => change(scene, random) }),
  };
}

export const flowSteps: readonly StepKind[] = [
  flowFault('deleted', async (scene, random) => {
    const flow = await someFlow(scene, random);
    await ofctl(scene, '--strict', 'del-flows', 'br-int', flow);
    return flow;
  }),
  flowFault('drops', async (scene, random) => {
    const flow = await someFlow(scene, random, (line) => !line.trim().endsWith(' actions=drop'));
    await ofctl(scene, '--strict', 'mod-flows', 'br-int', `${flow},actions=drop`);
    return flow;
  }),
  flowFault('foreign', async (scene, random) => {
    const flow = `table=${random.pick([0, 4, 26, 36, 56, 72, 110])},priority=${1 + random.below(65_535)},udp,tp_dst=${random.below(65_536)}`;
    await ofctl(scene, 'add-flow', 'br-int', `${flow},actions=drop`);
    return flow;
  }),
  flowFault('table emptied', async (scene, random) => {
    const table = random.pick([0, 4, 8, 26, 36, 56, 72, 80, 104]);
    const held = (await ofctl(scene, '--no-stats', 'dump-flows', 'br-int', `table=${table}`)).includes('actions=');
    await ofctl(scene, 'del-flows', 'br-int', `table=${table}`);
    return held ? `${table}` : nothingThere;
  }),
  flowFault('all deleted', (scene) => ofctl(scene, 'del-flows', 'br-int')),
  flowFault('groups deleted', async (scene) => {
    const held = (await ofctl(scene, 'dump-groups', 'br-int')).includes('group_id=');
    await ofctl(scene, 'del-groups', 'br-int');
    return held ? '' : nothingThere;
  }),
  flowFault('group changed', async (scene, random) => {
    const groups = (await ofctl(scene, 'dump-groups', 'br-int')).match(/(?<=group_id=)\d+/g) ?? [];
    const group = random.maybe(groups.toSorted());
    if (group !== undefined) await ofctl(scene, 'mod-group', 'br-int', `group_id=${group},type=select,bucket=actions=drop`);
    return group ?? nothingThere;
  }),
  flowFault('foreign group', (scene, random) =>
    addOrChange(scene, 'group', `group_id=${1 + random.below(9)},type=all,bucket=actions=drop`),
  ),
  flowFault('foreign meter', (scene, random) => addOrChange(scene, 'meter', `meter=${1 + random.below(9)},pktps,band=type=drop,rate=9`)),
];

/** The number may be allocated. */
async function addOrChange(scene: Scene, what: 'group' | 'meter', text: string): Promise<string> {
  try {
    return await ofctl(scene, `add-${what}`, 'br-int', text);
  } catch {
    return await ofctl(scene, `mod-${what}`, 'br-int', text);
  }
}
