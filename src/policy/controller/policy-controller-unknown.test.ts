import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { denyAll, EnforcementScene, second, standingOf, web } from '../../../test/support/enforcement-scene.ts';

const never = new AbortController().signal;
let scene: EnforcementScene;

beforeEach(() => {
  scene = new EnforcementScene();
});
afterEach(() => scene.end());

describe('a pod blocked pending policy', () => {
  it('keeps its flows if an earlier agent attached it, and gets policies as soon as they are known', async () => {
    scene.put(denyAll);
    scene.areRulesKnown = false;
    const enforcement = await scene.enforce();
    enforcement.adopt(web);
    await enforcement.settled();
    expect(standingOf(enforcement)).toBe('undecided');
    expect(scene.bridge.wanted.has(web.owner)).toBe(false);
    scene.areRulesKnown = true;
    enforcement.podsChanged(['shop/web']);
    await enforcement.settled();
    expect(standingOf(enforcement)).toBe('policed');
  });

  it.each([
    ['without policy', 'free'],
    ['empty', 'closed'],
  ] as const)('is on a bridge that was %s %s', async (bridgeBefore, standing) => {
    scene.areRulesKnown = false;
    const enforcement = await scene.enforce({ bridgeBefore });
    enforcement.adopt(web);
    expect(standingOf(enforcement)).toBe(standing);
  });

  it.each([
    ['closed', 'closed'],
    ['open', 'free'],
  ] as const)('is, with `whenUnknown` %s, %s', async (whenUnknown, standing) => {
    scene.areRulesKnown = false;
    const enforcement = await scene.enforce({ whenUnknown });
    await enforcement.attach(web, never);
    expect(standingOf(enforcement)).toBe(standing);
  });

  it('is rejected if `whenUnknown` requires it', async () => {
    scene.areRulesKnown = false;
    const enforcement = await scene.enforce({ whenUnknown: 'refuse' });
    await expect(enforcement.attach(web, never)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(scene.bridge.wanted.has(web.owner)).toBe(false);
  });

  it('is blocked without labels in a namespace with policies, with the reason, and free in one without', async () => {
    scene.facts.clear();
    const enforcement = await scene.enforce();
    await enforcement.attach(web, never);
    expect(standingOf(enforcement)).toBe('free');
    await enforcement.settled();
    scene.put(denyAll);
    await enforcement.settled();
    expect(standingOf(enforcement)).toBe('closed');
    await enforcement.attach(second, never);
    expect(enforcement.pods().get('shop/two')).toMatchObject({ is: 'closed', why: 'the labels of the pod are not known yet' });
  });

  it('is checked again when the first policy of its namespace is created or the last one deleted, and not with each pod that starts', async () => {
    scene.facts.clear();
    const looked: string[] = [];
    const of = (pod: string) => void looked.push(pod);
    const enforcement = await scene.enforce({ suspensions: { of, endedAway: () => false } });
    await enforcement.attach(web, never);
    await enforcement.settled();
    looked.length = 0;
    await enforcement.attach(second, never);
    await enforcement.settled();
    expect(looked).not.toContain('shop/web');
    scene.put(denyAll);
    await enforcement.settled();
    expect(looked).toContain('shop/web');
    expect(standingOf(enforcement)).toBe('closed');
    scene.remove(denyAll);
    await enforcement.settled();
    expect(standingOf(enforcement)).toBe('free');
  });
});
