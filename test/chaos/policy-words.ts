/** The operators of a label selector, and ranges of ports, chosen by a policy's name: no draw depends on it. */
type Worded = (key: string, value: string) => object;

const asLabels: Worded = (key, value) => ({ matchLabels: { [key]: value } });
const byNumber: Readonly<Record<string, Worded>> = {
  1: (key, value) => ({ matchExpressions: [{ key, operator: 'In', values: [value, 'unused'] }] }),
  3: (key, value) => ({
    matchExpressions: [
      { key, operator: 'NotIn', values: [value] },
      { key, operator: 'Exists' },
    ],
  }),
  5: (key, value) => ({ matchLabels: { [key]: value }, matchExpressions: [{ key: 'absent', operator: 'DoesNotExist' }] }),
};

/** Selector of a policy with this name, such as `p3`, for a label. */
export function labelSelector(policy: string): Worded {
  return byNumber[policy.at(-1) ?? ''] ?? asLabels;
}

/** A port, or a range from that port. */
export function portsOf(policy: string, port: number | string): { readonly port: number | string; readonly endPort?: number } {
  return policy.endsWith('5') && typeof port === 'number' ? { port, endPort: port + 9 } : { port };
}
