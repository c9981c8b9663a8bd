#!/usr/bin/env node
import { agentFlags, launch } from './launch.mjs';

await launch('seine-agent.mjs', 'src/agent/main.ts', agentFlags());
