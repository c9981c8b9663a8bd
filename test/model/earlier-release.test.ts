import fc from 'fast-check';
import { expect, it } from 'vitest';
import { familiesOf } from '../../src/dataplane/compile/environment.ts';
import { ctMark, reg } from '../../src/dataplane/pipeline/fields.ts';
import { type Flow, type Group, goto, type Match, priority, type Step } from '../../src/dataplane/pipeline/flow.ts';
import { ConnectionTracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import { type Output, SwitchModel } from '../../src/dataplane/switch-model/switch-model.ts';
import { modelRuns } from '../support/model-runs.ts';
import { type Arrival, answerTo, conversations } from './conversation.ts';
import { compileScene, exampleScene } from './scene.ts';

/**
 * Flows of releases 0.2.0 and 0.3.0 in `state` under keys that this one does not have. They stay on the bridge until every source is
 * synced, alongside this release's flows, and the tables that they resubmit to drop now.
 */
const ofEarlierReleases: readonly Flow[] = familiesOf(exampleScene.node).flatMap((family) => {
  const flow = (level: number, match: Match, ...steps: Step[]): Flow => ({
    table: 'state',
    priority: level,
    match: { payload: family, ...match },
    steps,
  });
  const service = ctMark.service('yes');
  const routed: Step = { do: 'load', mark: reg.routed('yes') };
  return [
    flow(priority.normal, { ctState: { new: '-', trk: '+' }, ctMarks: [service] }, routed, goto('egressAdmin')),
    flow(priority.normal, { ctState: { new: '+', trk: '+' }, ctMarks: [service] }, routed, goto('serviceEntry')),
    flow(priority.low, { ctState: { new: '-', trk: '+' } }, goto('egressAdmin')),
  ];
});

it.each(['userspace', 'kernel'] as const)('an earlier release’s flows match no packet of this one’s, on the %s data path', (datapath) => {
  const { flows, groups } = compileScene(exampleScene);
  const bridge = (all: readonly Flow[], choices: readonly number[]): SwitchModel => {
    let turn = 0;
    const choose = ({ buckets }: Group) => (choices[turn++ % choices.length] ?? 0) % buckets.length;
    const tunnelPort = exampleScene.node.tunnel.ofPort;
    return new SwitchModel({ flows: all, groups, tracker: new ConnectionTracker(datapath), choose, tunnelPort });
  };
  const choices = fc.array(fc.nat(), { minLength: 1 });
  const runs = fc.property(conversations(exampleScene), choices, ({ opening, order }, chosen) => {
    const [alone, beside] = [bridge(flows, chosen), bridge([...flows, ...ofEarlierReleases], chosen)];
    let last: readonly Output[] = [];
    for (const fromOpener of order) {
      const [received] = last;
      const arrival: Arrival | undefined = fromOpener ? opening : received && answerTo(received);
      if (!arrival) continue;
      last = alone.receive(arrival.inPort, arrival.packet).outputs;
      expect(beside.receive(arrival.inPort, arrival.packet).outputs).toEqual(last);
    }
  });
  fc.assert(runs, { numRuns: modelRuns(2_000) });
});
