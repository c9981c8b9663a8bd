/**
 * Tags of tests, by which a run selects some of the tests of several files: `--tags-filter`.
 *
 * `hardening`: actions that a tenant, a pod author or a user of a node must not be able to take, and traffic that must continue meanwhile.
 * Packets decide, so these also run on the kernel's data path, in one virtual machine (`npm run test:kernel -- --only hardening`).
 */
export const testTags = [{ name: 'hardening' }] as const;

declare module 'vitest' {
  interface TestTags {
    readonly tags: (typeof testTags)[number]['name'];
  }
}
