import * as z from 'zod';
import { parseObject } from '../../kubernetes/client/resource.ts';
import type { FieldPath } from '../../kubernetes/resources/object-faults.ts';
import type { ClusterPodsObject } from '../verify/reference/objects.ts';
import type { AntreaGroups } from './antrea-groups.ts';
import { type ConvertedRule, convertRule } from './antrea-rule.ts';
import { type Converted, podsOfSelectors, refusalOf, selectionSchema } from './antrea-selection.ts';
import { type AntreaTiers, DEFAULT_TIER } from './antrea-tiers.ts';
import { type DraftPart, type DraftPolicy, type DraftRule, keptAnnotations, list, metadataSchema, type RuleDirection } from './drafts.ts';
import type { ReadObject } from './losses.ts';

const object = z.looseObject({
  metadata: metadataSchema,
  spec: z.looseObject({
    tier: z.string().nullish(),
    priority: z.number().min(0).max(1_000_000),
    appliedTo: list,
    ingress: list,
    egress: list,
  }),
});

interface PolicyContext {
  readonly namespace: string | undefined;
  readonly groups: AntreaGroups;
  readonly into: ReadObject;
}

/**
 * Converts a ClusterNetworkPolicy or NetworkPolicy of Antrea.
 *
 * @returns undefined if nothing is left of it
 * @throws SeineError `INVALID_INPUT` if it is not such an object
 */
export function draftOfAntreaPolicy(
  raw: unknown,
  { tiers, ...context }: PolicyContext & { readonly tiers: AntreaTiers },
): DraftPolicy | undefined {
  const { metadata, spec } = parseObject(object, raw);
  const { tier, priority, appliedTo, ingress, egress, ...unknown } = spec;
  const { into, namespace } = context;
  into.loseUnknown(unknown, ['spec']);
  const place = tiers.placeOf(tier || DEFAULT_TIER);
  if ('refused' in place) {
    into.lose(['spec', 'tier'], tier, place.refused, ['spec']);
    return undefined;
  }
  const written = appliedTo && appliedTo.length > 0 ? appliedTo : undefined;
  const subjects = written && subjectsOf(written, ['spec', 'appliedTo'], context);
  if (subjects?.length === 0) {
    into.lose(['spec', 'appliedTo'], appliedTo, 'no entry is left', ['spec']);
    return undefined;
  }
  const runs = (direction: RuleDirection, rules: readonly unknown[]) => runsOf(direction, rules, subjects, context);
  return {
    object: into.name,
    name: namespace === undefined ? metadata.name : `${namespace}.${metadata.name}`,
    labels: metadata.labels ?? {},
    annotations: keptAnnotations(metadata.annotations),
    tier: place.value.tier,
    order: { tier: place.value.priority, priority, createdAt: metadata.creationTimestamp ?? '' },
    parts: partsOf(runs('ingress', ingress ?? []), runs('egress', egress ?? [])),
  };
}

/** Consecutive rules with the same subjects, whose denied connections are handled alike. */
interface Run {
  readonly subjects: readonly ClusterPodsObject[];
  readonly rules: DraftRule[];
  /** Absent: none of the rules denies. */
  isRejecting?: boolean;
}

function runsOf(
  direction: RuleDirection,
  raw: readonly unknown[],
  ofPolicy: readonly ClusterPodsObject[] | undefined,
  context: PolicyContext,
): readonly Run[] {
  const runs: Run[] = [];
  for (const [at, each] of raw.entries()) {
    const path = ['spec', direction, at];
    const converted = convertRule(each, path, { direction, ...context });
    const subjects = converted && (ofPolicy ?? subjectsOfRule(converted, path, context));
    if (!converted || !subjects || converted.rule.peers.length === 0) continue;
    const last = runs.at(-1);
    const denies = converted.rule.action === 'Deny' ? converted.rule.isRejecting === true : undefined;
    const isSame = last && (ofPolicy !== undefined || JSON.stringify(last.subjects) === JSON.stringify(subjects));
    const isAlike = last?.isRejecting === undefined || denies === undefined || last.isRejecting === denies;
    const run: Run = last && isSame && isAlike ? last : { subjects, rules: [] };
    if (run !== last) runs.push(run);
    run.rules.push(converted.rule);
    if (denies !== undefined) run.isRejecting = denies;
  }
  return runs;
}

function subjectsOfRule({ appliedTo }: ConvertedRule, path: FieldPath, context: PolicyContext): readonly ClusterPodsObject[] | undefined {
  const subjects = subjectsOf(appliedTo ?? [], [...path, 'appliedTo'], context);
  if (subjects.length > 0) return subjects;
  context.into.lose([...path, 'appliedTo'], appliedTo, appliedTo ? 'no entry is left' : 'one or more entries are required', path);
  return undefined;
}

/** Both directions share a policy where they can. */
function partsOf(ingress: readonly Run[], egress: readonly Run[]): readonly DraftPart[] {
  const offsets = Array.from({ length: Math.max(ingress.length, egress.length) }, (_, offset) => offset);
  return offsets.flatMap((offset) => {
    const [a, b] = [ingress[offset], egress[offset]];
    const parts = [part(offset, a, undefined), part(offset, undefined, b)].filter((each) => each !== undefined);
    if (!a || !b || JSON.stringify(a.subjects) !== JSON.stringify(b.subjects)) return parts;
    const isAlike = a.isRejecting === undefined || b.isRejecting === undefined || a.isRejecting === b.isRejecting;
    return isAlike ? (part(offset, a, b) ?? []) : parts;
  });
}

function part(offset: number, ingress: Run | undefined, egress: Run | undefined): DraftPart | undefined {
  const some = ingress ?? egress;
  if (!some) return undefined;
  return {
    offset,
    subjects: some.subjects,
    ingress: ingress?.rules ?? [],
    egress: egress?.rules ?? [],
    isRejecting: ingress?.isRejecting === true || egress?.isRejecting === true,
  };
}

function subjectsOf(entries: readonly unknown[], path: FieldPath, context: PolicyContext): readonly ClusterPodsObject[] {
  return entries.flatMap((raw, at) => {
    const selection = context.into.read(selectionSchema, raw, [...path, at]);
    const pods = selection && subjectOf(selection, context);
    if (!pods) return [];
    if ('value' in pods) return pods.value;
    context.into.lose([...path, at], raw, pods.refused);
    return [];
  });
}

function subjectOf(
  selection: z.output<typeof selectionSchema>,
  { namespace, groups }: PolicyContext,
): Converted<readonly ClusterPodsObject[]> {
  const { podSelector, namespaceSelector, group, ipBlock, nodeSelector, fqdn } = selection;
  const refused = refusalOf(selection);
  if (refused !== undefined) return { refused };
  if (nodeSelector) return { refused: 'nodeSelector: nodes are not subjects of the API' };
  const given = [podSelector ?? namespaceSelector, group || undefined].filter(Boolean);
  if (ipBlock || fqdn || given.length !== 1) return { refused: 'pods or a group are required' };
  if (!group) {
    if (namespace !== undefined && namespaceSelector)
      return { refused: 'namespaceSelector: a policy of a namespace applies to its own pods' };
    return { value: [podsOfSelectors(selection, namespace)] };
  }
  if (namespace !== undefined && groups.selectsNamespaces(namespace, group))
    return { refused: `group ${JSON.stringify(group)}: a policy of a namespace applies to its own pods` };
  const members = groups.members(namespace, group);
  if ('refused' in members) return members;
  const isOfAddresses = members.value.some(({ namespaces, pods }) => (namespaces ?? pods) === undefined);
  return isOfAddresses ? { refused: `group ${JSON.stringify(group)}: networks are not subjects` } : { value: members.value };
}
