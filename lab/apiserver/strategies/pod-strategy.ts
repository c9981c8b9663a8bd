import type { Container, PodSpec, PodStatus } from 'kubernetes-types/core/v1.d.ts';
import type { FieldErrors } from '../errors/field-errors.ts';
import { cloneJson, ensureObject, equalJson } from '../object/json.ts';
import { checkLabelName, checkPortName, checkSubdomain } from '../resource/name-rules.ts';
import type { Strategy } from '../resource/resource.ts';
import { podDefaults } from './pod-defaults.ts';

export const portProtocols = ['SCTP', 'TCP', 'UDP'];
const restartPolicies = ['Always', 'OnFailure', 'Never'];
const dnsPolicies = ['ClusterFirst', 'ClusterFirstWithHostNet', 'Default', 'None'];
const pullPolicies = ['Always', 'IfNotPresent', 'Never'];

export const podStrategy: Strategy = {
  defaults: (draft) => podDefaults(ensureObject(draft, 'spec')),
  prepare: (draft, old) => {
    if (old === undefined) draft.status = { phase: 'Pending', qosClass: qualityOfService(draft.spec as PodSpec) };
    const status = draft.status as PodStatus;
    if (status.podIPs?.[0] !== undefined) status.podIP ??= status.podIPs[0].ip ?? '';
    else if (status.podIP !== undefined && status.podIP !== '') status.podIPs = [{ ip: status.podIP }];
  },
  validate: ({ spec }, old, errors) => {
    const pod = spec as PodSpec;
    if (!restartPolicies.includes(pod.restartPolicy ?? '')) errors.notSupported('spec.restartPolicy', pod.restartPolicy, restartPolicies);
    if (!dnsPolicies.includes(pod.dnsPolicy ?? '')) errors.notSupported('spec.dnsPolicy', pod.dnsPolicy, dnsPolicies);
    if (pod.nodeName) checkSubdomain('spec.nodeName', pod.nodeName, errors);
    if (pod.hostname) checkLabelName('spec.hostname', pod.hostname, errors);
    checkContainers('spec.containers', pod.containers, errors);
    checkContainers('spec.initContainers', pod.initContainers ?? [], errors);
    if (old !== undefined) checkUpdate(pod, old.spec as PodSpec, errors);
  },
};

function checkContainers(path: string, containers: readonly Container[], errors: FieldErrors): void {
  const names = new Set<string>();
  containers.forEach((container, index) => {
    const here = `${path}[${index}]`;
    if (names.has(container.name)) errors.duplicate(`${here}.name`, container.name);
    names.add(container.name);
    if (container.name) checkLabelName(`${here}.name`, container.name, errors);
    if (!container.image) errors.required(`${here}.image`);
    const pull = container.imagePullPolicy;
    if (pull !== undefined && !pullPolicies.includes(pull)) errors.notSupported(`${here}.imagePullPolicy`, pull, pullPolicies);
    checkPorts(`${here}.ports`, container, errors);
  });
}

function checkPorts(path: string, { ports = [] }: Container, errors: FieldErrors): void {
  const names = new Set<string>();
  ports.forEach(({ name, containerPort, hostPort, protocol }, index) => {
    const here = `${path}[${index}]`;
    if (name !== undefined) {
      checkPortName(`${here}.name`, name, errors);
      if (names.has(name)) errors.duplicate(`${here}.name`, name);
      names.add(name);
    }
    if (containerPort === undefined || containerPort === 0) errors.required(`${here}.containerPort`);
    else checkPort(`${here}.containerPort`, containerPort, errors);
    if (hostPort !== undefined && hostPort !== 0) checkPort(`${here}.hostPort`, hostPort, errors);
    if (!portProtocols.includes(protocol ?? '')) errors.notSupported(`${here}.protocol`, protocol, portProtocols);
  });
}

export function checkPort(path: string, port: number, errors: FieldErrors): void {
  if (!(port >= 1 && port <= 65_535)) errors.invalid(path, port, 'must be between 1 and 65535, inclusive');
}

/** A pod's spec is immutable, except images, a few numbers, and the node, once. */
function checkUpdate(now: PodSpec, before: PodSpec, errors: FieldErrors): void {
  const allowed = cloneJson(now);
  const images = new Map([...before.containers, ...(before.initContainers ?? [])].map(({ name, image }) => [name, image]));
  for (const container of [...allowed.containers, ...(allowed.initContainers ?? [])]) {
    const image = images.get(container.name);
    if (image !== undefined) container.image = image;
  }
  const free = ['activeDeadlineSeconds', 'tolerations', 'terminationGracePeriodSeconds', 'schedulingGates', 'ephemeralContainers'];
  const fixed = (spec: PodSpec) => Object.fromEntries(Object.entries(spec).filter(([name]) => !free.includes(name)));
  if (equalJson(fixed(allowed), fixed(before))) return;
  errors.forbidden(
    'spec',
    'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
  );
}

function qualityOfService({ containers = [] }: PodSpec): string {
  const resources = containers.map((container) => container.resources ?? {});
  if (resources.every(({ limits, requests }) => limits === undefined && requests === undefined)) return 'BestEffort';
  const guaranteed = resources.every(
    ({ limits = {}, requests = limits }) => limits['cpu'] && limits['memory'] && equalJson(limits, requests),
  );
  return guaranteed ? 'Guaranteed' : 'Burstable';
}
