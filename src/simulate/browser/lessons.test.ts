import { describe, expect, it } from 'vitest';
import type { LessonResult } from '../../ui/answers/simulator.ts';
import type { Lesson } from '../../ui/lessons/lesson.ts';
import { lessons } from '../../ui/lessons/lessons.ts';
import { Simulation } from './simulation.ts';

const simulation = new Simulation(() => 0);

async function checked({ objects, checks }: Lesson, answer: string): Promise<LessonResult> {
  await simulation.load([
    { name: 'objects', content: objects },
    { name: 'your answer', content: answer },
  ]);
  return await simulation.check(checks);
}

it('has eight lessons with different names', () => {
  expect(new Set(lessons.map(({ id }) => id)).size).toBe(8);
});

describe.each(lessons)('the lesson: $title', (lesson) => {
  it('is solved by its solution', async () => {
    const { checks } = await checked(lesson, lesson.solution);
    expect(checks.filter(({ passed }) => !passed)).toEqual([]);
  });

  it('is not solved by the text to begin with, which can be read', async () => {
    const { passed, checks } = await checked(lesson, lesson.start);
    expect(passed).toBe(false);
    // Else the check would not distinguish answers.
    expect(checks.some((each) => each.passed)).toBe(true);
  });

  it('is solved by no answer that only allows, or only denies, everything', async () => {
    expect((await checked(lesson, '')).passed).toBe(false);
    const namespaces = [...new Set([...lesson.objects.matchAll(/namespace: (\w[\w-]*)/g)].map(([, name]) => name))];
    const deny = namespaces.map((namespace) =>
      JSON.stringify({
        apiVersion: 'networking.k8s.io/v1',
        kind: 'NetworkPolicy',
        metadata: { name: 'nothing', namespace },
        spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'] },
      }),
    );
    expect((await checked(lesson, deny.join('\n---\n'))).passed).toBe(false);
  });
});
