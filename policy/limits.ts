/** Max requests per window, and what they are counted by; further ones are refused for the rest of the window, or for the block. */
export interface Limit {
  allow: number
  perSeconds: number
  by: 'user' | 'app' | 'user+app' | 'database' | 'user+database' | 'address' | 'link+address'
  thenBlockSeconds?: number
  /** Name of a counter that several endpoints share; without it the endpoint has its own. */
  shared?: string
  /** Code of a refusal; default: KEEP_CALM. */
  code?: 'RATE_LIMIT'
}

const power: readonly Limit[] = [
  { allow: 1, perSeconds: 3, by: 'app' },
  { allow: 20, perSeconds: 15, by: 'user', shared: 'apps.power' },
]

/** Limits by endpoint name (contract 9.3). An endpoint without a row is limited by the plan's budget only. */
export const limits = {
  'account.apikey': [{ allow: 2, perSeconds: 60, by: 'user', thenBlockSeconds: 300, code: 'RATE_LIMIT' }],
  'account.sign-in.begin': [{ allow: 10, perSeconds: 60, by: 'address', thenBlockSeconds: 300 }],
  'account.sign-in.end': [{ allow: 20, perSeconds: 60, by: 'address', thenBlockSeconds: 300 }],
  'account.authorize.start': [{ allow: 10, perSeconds: 60, by: 'address', thenBlockSeconds: 300 }],
  'account.authorize.claim': [{ allow: 60, perSeconds: 60, by: 'address' }],
  'account.captcha': [{ allow: 10, perSeconds: 60, by: 'user', thenBlockSeconds: 300 }],
  'account.downgrade': [{ allow: 4, perSeconds: 300, by: 'user', thenBlockSeconds: 86_400 }],
  'account.locale': [{ allow: 4, perSeconds: 60, by: 'user', thenBlockSeconds: 300 }],
  // Counted by the endpoint itself: only actual changes count.
  'account.username.changes': [{ allow: 3, perSeconds: 86_400, by: 'user' }],
  'apps.create': [{ allow: 1, perSeconds: 3, by: 'user' }],
  'apps.delete': [{ allow: 1, perSeconds: 3, by: 'user' }],
  'apps.status.all': [{ allow: 15, perSeconds: 60, by: 'user' }],
  'apps.logs': [
    { allow: 1, perSeconds: 5, by: 'user+app' },
    { allow: 20, perSeconds: 10, by: 'user', thenBlockSeconds: 30 },
  ],
  'apps.commit': [
    { allow: 1, perSeconds: 2, by: 'user' },
    { allow: 1, perSeconds: 5, by: 'user+app' },
  ],
  'apps.link': [{ allow: 3, perSeconds: 60, by: 'user', shared: 'apps.link' }],
  'apps.unlink': [{ allow: 3, perSeconds: 60, by: 'user', shared: 'apps.link' }],
  'git.connect.begin': [{ allow: 10, perSeconds: 60, by: 'user' }],
  'git.connect.confirm': [{ allow: 10, perSeconds: 60, by: 'user' }],
  'apps.webhook': [{ allow: 5, perSeconds: 60, by: 'user' }],
  'apps.deliveries': [{ allow: 20, perSeconds: 60, by: 'user' }],
  // Counted by the endpoints of the network for the owner of the application: remembered answers are free.
  'apps.network.misses': [{ allow: 20, perSeconds: 60, by: 'user' }],
  'apps.metrics': [{ allow: 10, perSeconds: 5, by: 'user', thenBlockSeconds: 60 }],
  'apps.realtime': [{ allow: 1, perSeconds: 5, by: 'user+app' }],
  'apps.files.write': [{ allow: 10, perSeconds: 5, by: 'user' }],
  'apps.files.write.config': [{ allow: 1, perSeconds: 15, by: 'user+app' }],
  'apps.snapshots.create': [
    { allow: 1, perSeconds: 5, by: 'user' },
    { allow: 1, perSeconds: 180, by: 'app' },
  ],
  'apps.snapshots.restore': [
    { allow: 1, perSeconds: 60, by: 'user' },
    { allow: 1, perSeconds: 120, by: 'app' },
  ],
  // Counted by the endpoint itself: cached answers are free.
  'users.snapshots.misses': [{ allow: 3, perSeconds: 60, by: 'user', thenBlockSeconds: 300 }],
  'databases.create': [{ allow: 1, perSeconds: 3, by: 'user' }],
  'databases.status.all': [{ allow: 15, perSeconds: 60, by: 'user' }],
  'databases.update': [{ allow: 1, perSeconds: 5, by: 'user' }],
  'databases.delete': [{ allow: 1, perSeconds: 3, by: 'user' }],
  'databases.start': [{ allow: 1, perSeconds: 3, by: 'database' }],
  'databases.stop': [{ allow: 1, perSeconds: 3, by: 'database' }],
  'databases.reset': [{ allow: 1, perSeconds: 3, by: 'user' }],
  'databases.metrics': [{ allow: 10, perSeconds: 5, by: 'user', thenBlockSeconds: 60 }],
  'databases.snapshots.create': [
    { allow: 1, perSeconds: 5, by: 'user' },
    { allow: 1, perSeconds: 180, by: 'database' },
  ],
  'databases.snapshots.restore': [
    { allow: 1, perSeconds: 60, by: 'user' },
    { allow: 1, perSeconds: 120, by: 'database' },
  ],
  'databases.logs': [
    { allow: 1, perSeconds: 5, by: 'user+database' },
    { allow: 20, perSeconds: 10, by: 'user', thenBlockSeconds: 30 },
  ],
  'workspaces.create': [{ allow: 1, perSeconds: 10, by: 'user' }],
  'workspaces.find': [{ allow: 30, perSeconds: 60, by: 'user' }],
  'workspaces.delete': [{ allow: 1, perSeconds: 10, by: 'user' }],
  'workspaces.leave': [{ allow: 1, perSeconds: 5, by: 'user' }],
  'workspaces.members.code': [{ allow: 1, perSeconds: 300, by: 'user' }],
  'workspaces.members.add': [{ allow: 1, perSeconds: 5, by: 'user' }],
  'workspaces.members.change': [{ allow: 3, perSeconds: 15, by: 'user' }],
  'workspaces.members.remove': [{ allow: 5, perSeconds: 30, by: 'user' }],
  'workspaces.apps.share': [{ allow: 10, perSeconds: 30, by: 'user' }],
  'workspaces.apps.unshare': [{ allow: 10, perSeconds: 30, by: 'user' }],
  'objects.list': [{ allow: 30, perSeconds: 30, by: 'user' }],
  'objects.info': [{ allow: 60, perSeconds: 60, by: 'user' }],
  'objects.download': [{ allow: 60, perSeconds: 60, by: 'user' }],
  'objects.copy': [{ allow: 10, perSeconds: 10, by: 'user' }],
  'chunked.init': [{ allow: 5, perSeconds: 10, by: 'user' }],
  'chunked.part': [{ allow: 60, perSeconds: 10, by: 'user', thenBlockSeconds: 10 }],
  'chunked.status': [{ allow: 10, perSeconds: 10, by: 'user' }],
  'chunked.open': [{ allow: 10, perSeconds: 10, by: 'user' }],
  'chunked.complete': [{ allow: 5, perSeconds: 10, by: 'user' }],
  'chunked.abort': [{ allow: 10, perSeconds: 10, by: 'user', thenBlockSeconds: 10 }],
  'shares.create': [{ allow: 30, perSeconds: 60, by: 'user' }],
  'shares.list': [{ allow: 20, perSeconds: 60, by: 'user' }],
  'rules.save': [{ allow: 10, perSeconds: 60, by: 'user' }],
  'blob.stats': [{ allow: 20, perSeconds: 60, by: 'user' }],
  'upload-tokens.create': [{ allow: 120, perSeconds: 60, by: 'user' }],
  's3.credentials': [{ allow: 10, perSeconds: 3600, by: 'user' }],
  'apps.domains': [{ allow: 20, perSeconds: 60, by: 'user' }],
  'apps.load-balancers': [{ allow: 20, perSeconds: 60, by: 'user' }],
  'apps.network.dns': [{ allow: 3, perSeconds: 10, by: 'user' }],
  'apps.network.custom': [
    { allow: 10, perSeconds: 300, by: 'user' },
    { allow: 50, perSeconds: 86_400, by: 'user' },
  ],
  'apps.network.settings.update': [{ allow: 10, perSeconds: 60, by: 'user' }],
  // Counted by the endpoint itself, for the owner of the application, regardless of which member sends it.
  'apps.network.purge_cache.owner': [{ allow: 1, perSeconds: 60, by: 'user' }],
  'apps.start': power,
  'apps.stop': power,
  'apps.restart': power,
} as const satisfies Record<string, readonly Limit[]>

/** Objects named in requests, counted individually in addition to the request itself (contract 9.4). */
export const objectCounts = {
  update: [{ allow: 50, perSeconds: 10, by: 'user' }],
  delete: [{ allow: 1000, perSeconds: 10, by: 'user' }],
} as const satisfies Record<string, readonly Limit[]>

/** Visits of a link, which do not count towards a budget (contract 9.4). */
export const linkVisits = {
  temporary: [
    { allow: 60, perSeconds: 60, by: 'link+address' },
    { allow: 6000, perSeconds: 60, by: 'user' },
  ],
  /** More than for an object: archives are large, and download managers fetch them in ranges. */
  snapshot: [
    { allow: 300, perSeconds: 60, by: 'link+address' },
    { allow: 6000, perSeconds: 60, by: 'user' },
  ],
  share: [{ allow: 120, perSeconds: 60, by: 'link+address' }],
  /** Wrong passwords; a right one is uncounted. */
  password: [{ allow: 10, perSeconds: 600, by: 'address' }],
} as const satisfies Record<string, readonly Limit[]>

/** Max open live streams (contract 9.5). */
export const realtimeConnections = { perUser: 5, perApp: 30 } as const

/** Max logs of deployments that an account may follow concurrently, over all processes. */
export const followedLogs = { perUser: 10 } as const

/** Whole logs of deployments that one API process sends concurrently; others wait, up to `waitSeconds`. */
export const wholeLogs = { atOnce: 1000, perSubject: 10, waitSeconds: 30 } as const

/** Max applications that are shared in one workspace, on every plan (contract 9.5). */
export const workspaceApplications = 100

/** How long an invite code to a workspace is valid; it works once. */
export const inviteCodeSeconds = 300

/** A token bucket: its size, and the interval in which it gets one more. */
export interface Bucket {
  burst: number
  everySeconds: number
}

/** Deliveries of one webhook (contract 9.6); repeated deliveries of a stored push are free. */
export const webhookBucket: Bucket = { burst: 20, everySeconds: 15 }

/** A bucket scaled by RATE_LIMIT_SCALE, in size and in rate. */
export function scaledBucket({ burst, everySeconds }: Bucket, scale: number): Bucket {
  return { burst: Math.max(1, Math.floor(burst * scale)), everySeconds: everySeconds / Math.max(scale, 1e-9) }
}

/** Requests per minute of an address outside the platform, over all accounts that use it (contract 9.2). */
export const outsidePerMinute = 300

/** Requests of one upload token, of any kind (contract 9.7). */
export const tokenRequests = { allow: 60, perSeconds: 60, blockSeconds: 300 } as const
