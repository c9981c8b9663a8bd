import { describe, expect, it } from 'vitest';
import { GroupIdPool } from './group-id-pool.ts';

describe('GroupIdPool', () => {
  it('allocates the same number for the same name in another process', () => {
    const names = Array.from({ length: 20_000 }, (_, index) => `service/ns-${index % 100}/svc-${index}:http/ipv4`);
    const [a, b] = [new GroupIdPool(), new GroupIdPool()];
    const first = names.map((name) => a.lend(name));
    expect(new Set(first).size).toBe(names.length);
    const second = names
      .toReversed()
      .map((name) => b.lend(name))
      .toReversed();
    expect(first.filter((id, index) => id !== second[index]).length).toBeLessThan(10);
  });
});
