import type { Node, NodeSpec, NodeStatus, PodSpec, Toleration } from 'kubernetes-types/core/v1.d.ts';
import type { Log } from '../../../log/log.ts';
import type { Core } from '../core.ts';
import { arrayAt, isObject, textAt } from '../json.ts';
import { type KubeObject, keyOf, kubeTime } from '../kube-object.ts';
import { bindPod } from '../pod-subresources.ts';
import { builtIn, changeObject, recordEvent } from './access.ts';
import { ControllerLoop } from './loop.ts';

const component = 'default-scheduler';

/** Gives each pod without a node the ready, schedulable node that has the fewest, among those its selector and tolerations allow. */
export function startScheduler(core: Core, log: Log): ControllerLoop {
  const { store } = core;
  const counts = new Map<string, number>();
  const pending = new Set<string>();
  const loop = new ControllerLoop('scheduler', (key) => schedule(core, key, counts), log);
  const count = (pod: KubeObject, step: 1 | -1) => {
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

function schedule(core: Core, key: string, counts: ReadonlyMap<string, number>): void {
  const pod = core.store.get('pods', key)?.object;
  if (pod === undefined || textAt(pod.spec, 'nodeName') !== '' || pod.metadata.deletionTimestamp !== undefined) return;
  const nodes = core.store.list('nodes').map(({ object }) => object);
  const fit = nodes.filter((node) => fits(pod.spec as PodSpec, node));
  const [best] = fit.toSorted(
    (a, b) => (counts.get(a.metadata.name) ?? 0) - (counts.get(b.metadata.name) ?? 0) || a.metadata.name.localeCompare(b.metadata.name),
  );
  const { namespace, name } = pod.metadata;
  if (best === undefined) {
    markUnschedulable(core, pod, `0/${nodes.length} nodes are available: none is ready, schedulable and selected.`);
    return;
  }
  bindPod(core, namespace, name, { target: { name: best.metadata.name } }, { fieldManager: component });
  recordEvent(core, pod, {
    type: 'Normal',
    reason: 'Scheduled',
    message: `Successfully assigned ${key} to ${best.metadata.name}`,
    component,
  });
}

function fits({ nodeSelector = {}, tolerations = [] }: PodSpec, node: KubeObject): boolean {
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

/** Says why once; a pod that is told already is left alone, as each write would wake the scheduler again. */
function markUnschedulable(core: Core, pod: KubeObject, message: string): void {
  const conditions = arrayAt(pod.status, 'conditions').filter(isObject);
  if (conditions.some((one) => one['type'] === 'PodScheduled' && one['message'] === message)) return;
  const condition = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message, lastTransitionTime: kubeTime(core.now()) };
  const change = (draft: Record<string, unknown>) => {
    const status = isObject(draft['status']) ? draft['status'] : {};
    draft['status'] = { ...status, conditions: [...conditions.filter((one) => one['type'] !== 'PodScheduled'), condition] };
  };
  changeObject(core, builtIn(core, '', 'pods'), pod, component, change, 'status');
  recordEvent(core, pod, { type: 'Warning', reason: 'FailedScheduling', message, component });
}
