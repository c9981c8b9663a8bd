import type { Strategy } from './resource.ts';

export const customResourceDefinitionStrategy: Strategy = {};
