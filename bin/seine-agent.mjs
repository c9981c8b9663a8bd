#!/usr/bin/env node
import { launch } from './launch.mjs';

await launch('seine-agent.mjs', 'src/agent/main.ts');
