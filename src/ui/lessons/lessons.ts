import { defaultDeny } from './default-deny.ts';
import { dns } from './dns.ts';
import { dualStack } from './dual-stack.ts';
import { firstPolicy } from './first-policy.ts';
import { hairpin } from './hairpin.ts';
import type { Lesson } from './lesson.ts';
import { local } from './local.ts';
import { namespaces } from './namespaces.ts';
import { targetPorts } from './target-ports.ts';

/** Lessons in the order in which they build on each other. */
export const lessons: readonly Lesson[] = [firstPolicy, defaultDeny, dns, namespaces, targetPorts, local, hairpin, dualStack];
