import { expect, it } from 'vitest';
import { type ContainerState, type PodRuntimeState, podStatus } from './pod-status.ts';

const running: ContainerState = { name: 'a', image: 'i', restarts: 0, ready: true, run: { is: 'running', startedAt: 't0' } };
const ended = (exitCode: number): ContainerState => ({
  ...running,
  ready: false,
  run: { is: 'terminated', exitCode, startedAt: 't0', finishedAt: 't1' },
});
const facts: PodRuntimeState = {
  containers: [running],
  restartPolicy: 'Always',
  containerId: 'abc',
  ips: ['10.0.0.2', 'fd00::2'],
  hostIps: ['192.168.77.1'],
  startTime: 't0',
};
const conditions = (wanted: PodRuntimeState) =>
  Object.fromEntries(podStatus(wanted, undefined, 'now').conditions.map((one) => [one.type, one.status]));

it('is Running and Ready with both addresses', () => {
  const status = podStatus(facts, undefined, 'now');
  expect(status).toMatchObject({
    phase: 'Running',
    podIP: '10.0.0.2',
    podIPs: [{ ip: '10.0.0.2' }, { ip: 'fd00::2' }],
    hostIP: '192.168.77.1',
  });
  expect(conditions(facts)).toMatchObject({ Ready: 'True', ContainersReady: 'True', PodScheduled: 'True' });
});

it('is Pending until it has a network, with the reason', () => {
  const waiting: ContainerState = { ...running, ready: false, run: { is: 'waiting', reason: 'ContainerCreating' } };
  const status = podStatus({ ...facts, containers: [waiting], ips: [], problem: 'no agent' }, undefined, 'now');
  expect(status).toMatchObject({ phase: 'Pending', podIP: null });
  expect(status.conditions).toContainEqual(
    expect.objectContaining({ type: 'PodReadyToStartContainers', status: 'False', message: 'no agent' }),
  );
});

it.each([
  ['Never', [ended(0), ended(0)], 'Succeeded'],
  ['Never', [ended(0), ended(1)], 'Failed'],
  ['Never', [ended(1), running], 'Running'],
  ['OnFailure', [ended(0)], 'Succeeded'],
  ['OnFailure', [ended(1)], 'Running'],
  ['Always', [ended(0)], 'Running'],
] as const)('with restart policy %s and these containers is %s', (restartPolicy, containers, phase) => {
  expect(podStatus({ ...facts, restartPolicy, containers }, undefined, 'now').phase).toBe(phase);
});

it('is not ready while one container is not', () => {
  expect(conditions({ ...facts, containers: [running, { ...running, name: 'b', ready: false }] })['Ready']).toBe('False');
});

it('keeps the time of a condition that did not change', () => {
  const before = podStatus(facts, undefined, 'early');
  const after = podStatus({ ...facts, containers: [{ ...running, ready: false }] }, before, 'late');
  const times = Object.fromEntries(after.conditions.map((one) => [one.type, one.lastTransitionTime]));
  expect(times).toMatchObject({ PodScheduled: 'early', Ready: 'late' });
});
