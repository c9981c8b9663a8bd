import type { Node, NodeSpec, NodeStatus, PodSpec, Toleration } from 'kubernetes-types/core/v1.d.ts';
import type { Log } from '../../../src/base/log/log.ts';
import { type ApiObject, keyOf, kubeTime } from '../object/api-object.ts';
import { arrayAt, isObject, textAt } from '../object/json.ts';
import type { ApiResource } from '../resource/resource.ts';
import type { Store } from '../store/store.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import type { BindPod } from '../write/pod-subresources.ts';
import { changeObject, type RecordEvent } from './access.ts';
import { ControllerLoop } from './loop.ts';

const component = 'default-scheduler';

interface SchedulerPorts {
  readonly store: Pick<Store, 'get' | 'list' | 'subscribe'>;
  readonly writer: Pick<ObjectWriter, 'update'>;
  readonly pods: ApiResource;
  readonly bindPod: BindPod;
  readonly recordEvent: RecordEvent;
  /** Milliseconds since 1970. */
  now(): number;
}

/** Assigns each unscheduled pod to the ready, schedulable node that has the fewest, among those its selector and tolerations allow. */
export function startScheduler(ports: SchedulerPorts, log: Log): ControllerLoop {
  const { store } = ports;
  const counts = new Map<string, number>();
  const pending = new Set<string>();
  const loop = new ControllerLoop('scheduler', (key) => schedule(ports, key, counts), log);
  const count = (pod: ApiObject, step: 1 | -1) => {
    const node = textAt(pod.spec, 'nodeName');
    if (node !== '') counts.set(node, (counts.get(node) ?? 0) + step);
    const key = keyOf(pod.metadata);
    if (step === 1 && node === '' && pod.metadata.deletionTimestamp === undefined) pending.add(key);
    else pending.delete(key);
    if (pending.has(key)) loop.mark(key);
  };
  for (const { object } of store.list('pods')) count(object, 1);
  store.subscribe('pods', ({ type, entry, previous }) => {
    if (previous !== undefined) count(previous.object, -1);
    if (type !== 'DELETED') count(entry.object, 1);
  });
  store.subscribe('nodes', () => {
    for (const key of pending) loop.mark(key);
  });
  return loop;
}

function schedule(ports: SchedulerPorts, key: string, counts: ReadonlyMap<string, number>): void {
  const pod = ports.store.get('pods', key)?.object;
  if (pod === undefined || textAt(pod.spec, 'nodeName') !== '' || pod.metadata.deletionTimestamp !== undefined) return;
  const nodes = ports.store.list('nodes').map(({ object }) => object);
  const fit = nodes.filter((node) => fits(pod.spec as PodSpec, node));
  const [best] = fit.toSorted(
    (a, b) => (counts.get(a.metadata.name) ?? 0) - (counts.get(b.metadata.name) ?? 0) || a.metadata.name.localeCompare(b.metadata.name),
  );
  const { namespace, name } = pod.metadata;
  if (best === undefined) {
    markUnschedulable(ports, pod, `0/${nodes.length} nodes are available: none is ready, schedulable and selected.`);
    return;
  }
  ports.bindPod(namespace, name, { target: { name: best.metadata.name } }, { fieldManager: component });
  ports.recordEvent(pod, {
    type: 'Normal',
    reason: 'Scheduled',
    message: `Successfully assigned ${key} to ${best.metadata.name}`,
    component,
  });
}

function fits({ nodeSelector = {}, tolerations = [] }: PodSpec, node: ApiObject): boolean {
  const { unschedulable, taints = [] } = (node.spec ?? {}) as NodeSpec;
  const { conditions = [] } = (node.status ?? {}) as NodeStatus;
  const labels = node.metadata.labels ?? {};
  return (
    unschedulable !== true &&
    node.metadata.deletionTimestamp === undefined &&
    conditions.some(({ type, status }) => type === 'Ready' && status === 'True') &&
    Object.entries(nodeSelector).every(([label, value]) => labels[label] === value) &&
    taints.every((taint) => taint.effect === 'PreferNoSchedule' || tolerations.some((toleration) => tolerates(toleration, taint)))
  );
}

type Taint = NonNullable<NonNullable<Node['spec']>['taints']>[number];

function tolerates({ key, operator = 'Equal', value = '', effect }: Toleration, taint: Taint): boolean {
  if (effect !== undefined && effect !== '' && effect !== taint.effect) return false;
  if (key === undefined || key === '') return operator === 'Exists';
  return key === taint.key && (operator === 'Exists' || value === (taint.value ?? ''));
}

/** Sets the reason once; a pod that already has it is not written, because each write would wake the scheduler again. */
function markUnschedulable(ports: SchedulerPorts, pod: ApiObject, message: string): void {
  const conditions = arrayAt(pod.status, 'conditions').filter(isObject);
  if (conditions.some((one) => one['type'] === 'PodScheduled' && one['message'] === message)) return;
  const condition = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message, lastTransitionTime: kubeTime(ports.now()) };
  const change = (draft: Record<string, unknown>) => {
    const status = isObject(draft['status']) ? draft['status'] : {};
    draft['status'] = { ...status, conditions: [...conditions.filter((one) => one['type'] !== 'PodScheduled'), condition] };
  };
  changeObject(ports.writer, ports.pods, pod, component, change, 'status');
  ports.recordEvent(pod, { type: 'Warning', reason: 'FailedScheduling', message, component });
}
