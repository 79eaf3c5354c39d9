import type { Engine } from './engine.ts'

export const redis = {
  versions: ['8', '7'],
  image: version => `berth/redis:${version}`,
  official: version => `redis:${version}`,
  inMemory: true,
  minMemoryMb: 512,
  stop: { signal: 'SIGTERM', graceSeconds: 30 },
  ownerConnections: memoryMb => Math.min(1000, Math.max(100, Math.floor(memoryMb / 4))),
  // Drivers speak TLS for this scheme only.
  url: { scheme: 'rediss', path: '', query: '' },
} as const satisfies Engine
