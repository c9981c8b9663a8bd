import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse, stringify } from 'yaml';
import type { Lab } from '../lab.ts';
import type { Scene } from '../scene.ts';
import type { StepKind } from '../step.ts';
import { seinectl } from './alerts-of-agent.ts';
import { frozen, killed, startAgent } from './life.ts';
import { type Course, raising } from './raising.ts';

const policies = '/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies';
const services = '/api/v1/namespaces/shop/services';
const modeAnnotation = 'seine.dev/policy-mode';
/** Number of objects with a metric. */
const measuredMost = 1_000;
/** Above the threshold of lateness, and two buckets of the histogram. */
const lateMs = 12_000;
/** SeineApiSilent requires a quarter of an hour, SeineSyncUnverified ten minutes. */
const silentMs = 930_000;

/** A policy in the namespace `shop`, until the end of the step. */
export async function policyCreated({ scene: { lab }, undo }: Course, spec: object): Promise<void> {
  const name = 'alert';
  await lab.api.create(policies, { metadata: { name, namespace: 'shop' }, spec: { podSelector: {}, policyTypes: ['Ingress'], ...spec } });
  undo(() => lab.api.delete(`${policies}/${name}`));
}

async function restartedWith(lab: Lab, change: (config: Record<string, unknown>) => Record<string, unknown>): Promise<() => Promise<void>> {
  const file = join(lab.tried.rundir, 'agent.yaml');
  const before = readFileSync(file, 'utf8');
  const restarted = async (text: string): Promise<void> => {
    writeFileSync(file, text);
    await killed(lab, 'agentPid');
    await startAgent(lab);
    await lab.untilReady();
  };
  await restarted(stringify(change(parse(before) as Record<string, unknown>)));
  return () => restarted(before);
}

const hasWay = ({ way }: Scene): boolean => way !== undefined;

export const alertsOfApi: readonly StepKind[] = [
  raising('api forbidden', {
    alerts: ['SeineApiCopyOutdated', 'SeinePolicySourceStale'],
    harmless: true,
    where: hasWay,
    begin: async ({ scene: { way }, undo }) => {
      undo(() => way?.tell());
      way?.tell({ is: 'forbidden' });
    },
  }),
  raising('removals held', {
    alerts: ['SeineRemovalsDelayed'],
    harmless: true,
    where: hasWay,
    begin: async ({ scene: { way }, undo }) => {
      undo(() => way?.tell());
      way?.tell({ is: 'none', of: '/api/v1/services' });
    },
  }),
  raising('silence', {
    alerts: ['SeineApiSilent', 'SeineSyncUnverified'],
    withinMs: 1,
    // Retries are half a minute apart by then.
    settlesMs: 90_000,
    where: hasWay,
    begin: async ({ scene: { lab, way } }) => {
      if (way !== undefined) await frozen(lab, 'ovsdbPid', () => way.stall(silentMs));
    },
  }),
  raising('objects', {
    alerts: ['SeineObjectsNotServed'],
    harmless: true,
    begin: async ({ scene: { lab }, undo }) => {
      for (const name of ['alert-a', 'alert-b']) {
        const spec = { selector: { app: 'web' }, ports: [{ port: 80 }], externalIPs: ['198.18.0.99'] };
        await lab.api.create(services, { metadata: { name, namespace: 'shop' }, spec });
        undo(() => lab.api.delete(`${services}/${name}`));
      }
    },
  }),
  raising('services late', {
    alerts: ['SeineServicesLate', 'SeineOutOfSync'],
    begin: async ({ scene: { lab }, undo }) => {
      const name = 'alert-late';
      undo(() => lab.api.delete(`${services}/${name}`));
      await frozen(lab, 'vswitchdPid', async () => {
        await lab.api.create(services, {
          metadata: { name, namespace: 'shop' },
          spec: { selector: { app: 'web' }, ports: [{ port: 80 }] },
        });
        await sleep(lateMs);
      });
    },
  }),
  raising('policies suspended', {
    alerts: ['SeinePolicySuspended', 'SeineProblem'],
    harmless: true,
    begin: async ({ scene: { lab }, undo }) => {
      const pod = ['--pod', 'shop/web-0'];
      undo(() => seinectl(lab, 'policy', 'resume', ...pod));
      await seinectl(lab, 'policy', 'suspend', ...pod, '--for', '10m', '--reason', 'chaos');
    },
  }),
  raising('policies audited', {
    alerts: ['SeinePolicyNotEnforced'],
    harmless: true,
    begin: async ({ scene: { lab }, undo }) => {
      const annotated = (mode: string | null): Promise<unknown> =>
        lab.api.patch(`/api/v1/nodes/${lab.tried.name}`, { metadata: { annotations: { [modeAnnotation]: mode } } });
      undo(() => annotated(null));
      await annotated('audit');
    },
  }),
  raising('policy faulty', {
    alerts: ['SeinePolicyFaulty'],
    harmless: true,
    where: hasWay,
    begin: async (course) => {
      const { way } = course.scene;
      course.undo(() => way?.tell());
      // As on an API server of a later version.
      const change = <T extends { readonly spec?: object }>(object: T): T => ({ ...object, spec: { ...object.spec, ofLater: true } });
      way?.tell({ is: 'changed', of: '/apis/networking.k8s.io/v1/networkpolicies', change });
      await policyCreated(course, { podSelector: { matchLabels: { app: 'unused' } } });
    },
  }),
  raising('rules unmeasured', {
    alerts: ['SeinePolicyRulesUnmeasured'],
    withinMs: 90_000,
    harmless: true,
    begin: async (course) => {
      const restored = await restartedWith(course.scene.lab, (config) => ({ ...config, policy: { ruleMetrics: true } }));
      course.undo(restored);
      const rule = (number: number): object => ({ ports: [{ protocol: 'TCP', port: 10_000 + number }] });
      await policyCreated(course, { ingress: Array.from({ length: measuredMost + 50 }, (_, number) => rule(number)) });
    },
  }),
];
