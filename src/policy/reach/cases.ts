import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Family } from '../../base/net/ip.ts';
import { namedPort } from '../verify/reference/parties.ts';
import { Confirmation, type ReachDisagreement } from './confirm.ts';
import { keyOf, type ServiceObject } from './objects.ts';
import type { ReachParty } from './party.ts';
import { decidersOf, type ReachRange } from './ranges.ts';
import type { Reach } from './reach.ts';
import { type EndSelection, partiesOf, selectionSchema, serviceOf } from './select.ts';

const portText = z
  .union([z.string(), z.int()])
  .transform((value) => String(value))
  .pipe(
    z
      .string()
      .regex(
        /^(?:any|ICMP|(?:\d{1,5}(?:-\d{1,5})?|[a-z0-9-]{1,15})(?:\/(?:TCP|UDP|SCTP))?)$/,
        'not PORT, FIRST-LAST or NAME, with /TCP, /UDP or /SCTP; any; ICMP',
      ),
  )
  .transform(parsePort);

/** Ports of a case. */
type CasePort =
  | { readonly of: 'any' }
  /** Protocols without ports. */
  | { readonly of: 'other' }
  | { readonly of: 'range'; readonly protocol: 'TCP' | 'UDP' | 'SCTP'; readonly first: number; readonly last: number }
  /** Container port of the destination. */
  | { readonly of: 'name'; readonly protocol: 'TCP' | 'UDP' | 'SCTP'; readonly name: string };

export const caseSchema = z.strictObject({
  name: z.string().optional(),
  from: selectionSchema,
  to: selectionSchema,
  port: portText.default({ of: 'any' }),
  expect: z.enum(['allow', 'deny', 'some']),
  /** Policy or rule that must decide: `shop/db-clients`, `shop/db-clients spec.ingress[0]`. */
  by: z.string().optional(),
});

export type ReachCase = z.output<typeof caseSchema>;

/** Connection of a case, with its verdict. */
interface CaseVerdict {
  readonly from: ReachParty;
  readonly to: ReachParty;
  readonly family: Family;
  readonly range: ReachRange;
}

export interface CaseResult {
  readonly is: 'as expected' | 'different' | 'nothing selected' | 'decided by another rule';
  /** `some`: allowed for some of the selected pairs or ports only. */
  readonly found: 'allow' | 'deny' | 'some' | 'none';
  /** Verdicts that are not as expected, else all; at most `EXAMPLES_MAX`. */
  readonly examples: readonly CaseVerdict[];
  /** Rules and policies that decided, sorted. */
  readonly decidedBy: readonly string[];
  readonly disagreements: readonly ReachDisagreement[];
  /** End that selects nothing, or port that no destination has. */
  readonly missing?: string;
}

const EXAMPLES_MAX = 40;

/** Parses a port as test cases write it. @throws SeineError `INVALID_INPUT` with the accepted forms */
export function readPort(text: string): CasePort {
  const parsed = portText.safeParse(text);
  if (!parsed.success) throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)}: ${parsed.error.issues[0]?.message}`);
  return parsed.data;
}

function parsePort(text: string, context: z.RefinementCtx): CasePort {
  if (text === 'any') return { of: 'any' };
  if (text === 'ICMP') return { of: 'other' };
  const [port = '', protocolText = 'TCP'] = text.split('/');
  const protocol = protocolText as 'TCP' | 'UDP' | 'SCTP';
  if (!/^\d+(-\d+)?$/.test(port)) return { of: 'name', protocol, name: port };
  const [first = 0, last = first] = port.split('-').map(Number);
  if (last > 65_535) context.issues.push({ code: 'custom', message: 'a port is at most 65535', input: text });
  if (last < first) context.issues.push({ code: 'custom', message: 'the range ends before it begins', input: text });
  return { of: 'range', protocol, first, last };
}

/** Evaluates cases; each verdict is confirmed by the reference. */
export class CaseRunner {
  readonly #reach: Reach;
  readonly #confirmation: Confirmation;
  readonly #decided = new Set<string>();

  constructor(reach: Reach) {
    this.#reach = reach;
    this.#confirmation = new Confirmation(reach.objects);
  }

  /** Rules, and isolating policies, that decided about a connection in a case so far: `namespace/name spec.ingress[2]`, `namespace/name`. */
  get decided(): ReadonlySet<string> {
    return this.#decided;
  }

  /** @throws SeineError `INVALID_INPUT` for a Service that does not exist */
  run({ from, to, port, expect, by }: ReachCase): CaseResult {
    const sources = partiesOf(this.#reach.objects, from);
    const destinations = partiesOf(this.#reach.objects, to);
    if (sources.length === 0 || destinations.length === 0)
      return { ...nothing, missing: `${sources.length === 0 ? 'from' : 'to'} selects nothing` };
    const disagreements: ReachDisagreement[] = [];
    const verdicts: CaseVerdict[] = [];
    for (const source of sources)
      for (const destination of destinations) {
        if (isSame(source, destination)) continue;
        const result = this.#reach.between(source, destination);
        disagreements.push(...this.#confirmation.differences(source, destination, result));
        const spans = this.#spansAt(to, destination, port);
        for (const [family, ranges] of result.families)
          for (const span of spans)
            for (const range of ranges.filter((each) => overlaps(each, span)))
              verdicts.push({ from: source, to: destination, family, range });
      }
    if (verdicts.length === 0) return { ...nothing, disagreements, missing: 'no connection of this kind is possible' };
    return { ...this.#judge(verdicts, expect, by), disagreements };
  }

  #judge(verdicts: readonly CaseVerdict[], expect: ReachCase['expect'], by: string | undefined): Omit<CaseResult, 'disagreements'> {
    const allowed = verdicts.filter(({ range }) => range.verdict === 'allow');
    const found = allowed.length === 0 ? 'deny' : allowed.length === verdicts.length ? 'allow' : 'some';
    for (const { range } of verdicts) for (const rule of decidersOf(range)) this.#decided.add(rule);
    const decidedBy = [...new Set(verdicts.flatMap(({ range }) => decidersOf(range)))].sort();
    const wrong = expect === 'some' ? [] : verdicts.filter(({ range }) => range.verdict !== expect);
    if (found !== expect)
      return { is: 'different', found, decidedBy, examples: (wrong.length > 0 ? wrong : verdicts).slice(0, EXAMPLES_MAX) };
    const others = by === undefined ? [] : verdicts.filter(({ range }) => !decidersOf(range).some((rule) => isNamed(rule, by)));
    if (others.length > 0) return { is: 'decided by another rule', found, decidedBy, examples: others.slice(0, EXAMPLES_MAX) };
    return { is: 'as expected', found, decidedBy, examples: verdicts.slice(0, EXAMPLES_MAX) };
  }

  /** Returns the ports at which a destination is asked: for a Service, its target ports. */
  #spansAt(to: EndSelection, destination: ReachParty, port: CasePort): readonly Span[] {
    if (port.of === 'other') return [other];
    if (to.of === 'service')
      return servicePorts(serviceOf(this.#reach.objects, to), port).flatMap((each) => targetSpans(destination, each));
    if (port.of === 'any') return allPorts;
    return port.of === 'range' ? [port] : namedSpans(destination, port);
  }
}

interface Span {
  readonly protocol: ReachRange['protocol'];
  readonly first: number;
  readonly last: number;
}

const other: Span = { protocol: 'other', first: 0, last: 0 };
const allPorts: readonly Span[] = [...(['TCP', 'UDP', 'SCTP'] as const).map((protocol) => ({ protocol, first: 0, last: 65_535 })), other];
const nothing: CaseResult = { is: 'nothing selected', found: 'none', examples: [], decidedBy: [], disagreements: [] };

function servicePorts({ spec }: ServiceObject, port: Exclude<CasePort, { of: 'other' }>): ServiceObject['spec']['ports'] {
  if (port.of === 'any') return spec.ports;
  const ofProtocol = spec.ports.filter(({ protocol }) => (protocol ?? 'TCP') === port.protocol);
  if (port.of === 'name') return ofProtocol.filter(({ name }) => name === port.name);
  return ofProtocol.filter((each) => each.port >= port.first && each.port <= port.last);
}

function targetSpans(
  destination: ReachParty,
  { port, targetPort, protocol: text }: ServiceObject['spec']['ports'][number],
): readonly Span[] {
  const protocol = (text ?? 'TCP') as 'TCP' | 'UDP' | 'SCTP';
  const target = targetPort ?? port;
  return typeof target === 'string' ? namedSpans(destination, { protocol, name: target }) : [{ protocol, first: target, last: target }];
}

function namedSpans(
  destination: ReachParty,
  { protocol, name }: { readonly protocol: 'TCP' | 'UDP' | 'SCTP'; readonly name: string },
): readonly Span[] {
  const number = destination.is === 'pod' ? namedPort(destination.pod, name, protocol) : undefined;
  return number === undefined ? [] : [{ protocol, first: number, last: number }];
}

function overlaps(range: ReachRange, span: Span): boolean {
  return range.protocol === span.protocol && range.first <= span.last && range.last >= span.first;
}

function isSame(a: ReachParty, b: ReachParty): boolean {
  return a.is === 'pod' && b.is === 'pod' && keyOf(a.pod) === keyOf(b.pod);
}

/** Reports whether a rule is the named one, or belongs to the named policy. */
function isNamed(rule: string, name: string): boolean {
  return rule === name || rule.startsWith(`${name} `);
}
