import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { isMappedIpv4, parseCidr } from '../../base/net/ip.ts';

/** All requirements have to match; none: everything matches. `matchLabels` are requirements `In` with one value. */
export type SelectorRequirements = readonly LabelRequirement[];

export interface LabelRequirement {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  /** Empty for `Exists` and `DoesNotExist`. */
  readonly values: readonly string[];
}

/** Labels. A key that JSON can have and a JavaScript object cannot must not be lost: the selector would match more. */
const labelMap = z
  .unknown()
  .transform((raw, context): readonly LabelRequirement[] => {
    if (raw === null || raw === undefined) return [];
    const issue = (message: string, path: readonly string[] = []) =>
      void context.issues.push({ code: 'custom', message, input: raw, path: [...path] });
    if (typeof raw !== 'object' || Array.isArray(raw)) issue('expected an object');
    else if (Object.hasOwn(raw, '__proto__')) issue('__proto__ is not a label');
    return Object.entries(raw).map(([key, value]) => {
      if (typeof value !== 'string') issue('expected a string', [key]);
      return { key, operator: 'In', values: [String(value)] };
    });
  })
  .optional();

const requirement = z
  .strictObject({
    key: z.string().min(1),
    operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
    values: z.array(z.string()).nullish(),
  })
  .transform(({ key, operator, values }) => ({ key, operator, values: values ?? [] }))
  .refine(({ operator, values }) => (operator === 'In' || operator === 'NotIn') === values.length > 0, {
    error: 'In and NotIn need values, Exists and DoesNotExist have none',
  });

export const labelSelector = z
  .strictObject({ matchLabels: labelMap, matchExpressions: z.array(requirement).nullish() })
  .transform(({ matchLabels, matchExpressions }): SelectorRequirements => [...(matchLabels ?? []), ...(matchExpressions ?? [])]);

/** Network. Host bits are cleared, as by the API; a network that no packet has (IPv4 written as IPv6) or that is ambiguous is refused. */
export const network = z.string().transform((text, context) => {
  try {
    const cidr = parseCidr(text);
    if (!isMappedIpv4(cidr) && !/\/0\d/.test(text)) return cidr.text;
    context.issues.push({ code: 'custom', message: 'a network that can be read in two ways', input: text });
  } catch (thrown) {
    context.issues.push({ code: 'custom', message: SeineError.from(thrown, 'parse').rawMessage, input: text });
  }
  return z.NEVER;
});
