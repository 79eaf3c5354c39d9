/** What a plan grants (contract 12). Sizes carry their unit; counts are per account. */
export interface Plan {
  memoryMb: number
  requestsPerMinute: number
  blobGb: number
  snapshotsPerDay: number
  balancerGroups: number
  workspaces: number
  workspaceMembers: number
  /** How many days back the account sees its audit record. */
  historyDays: number
}

/** Plans by name. The order is the order of the downgrade. */
export type Plans = ReadonlyMap<string, Plan>

type Row = readonly [
  name: string,
  gb: number,
  requests: number,
  blobGb: number,
  balancers: number,
  workspaces: number,
  members: number,
]

const rows: readonly Row[] = [
  ['free', 0, 5, 0, 0, 0, 0],
  ['hobby-1', 1, 60, 5, 0, 0, 0],
  ['hobby-2', 2, 60, 15, 0, 0, 0],
  ['standard-4', 4, 120, 30, 2, 3, 10],
  ['standard-6', 6, 180, 50, 2, 3, 10],
  ['standard-8', 8, 240, 100, 2, 3, 10],
  ['pro-12', 12, 300, 200, 5, 10, 25],
  ['pro-16', 16, 300, 250, 5, 10, 25],
  ['pro-24', 24, 360, 250, 5, 10, 25],
  ['enterprise-24', 24, 360, 250, 10, 50, 100],
  ['enterprise-32', 32, 480, 250, 10, 50, 100],
  ['enterprise-48', 48, 720, 250, 10, 50, 100],
  ['enterprise-64', 64, 960, 250, 10, 50, 100],
  ['enterprise-96', 96, 1200, 250, 10, 50, 100],
  ...[128, 160, 192, 224, 256, 288, 320, 384, 448, 512, 640, 768, 1024].map(
    (gb): Row => [`enterprise-${gb}`, gb, gb * 12.5, 250, 10, 50, 100],
  ),
]

/** Specification 8, "activity history". */
const historyDays: Record<string, number> = { standard: 2, pro: 7, enterprise: 30 }

/** The built-in table. Snapshots a day are memory / 256 MB x 2. */
export const defaultPlans: Plans = new Map(
  rows.map(([name, gb, requestsPerMinute, blobGb, balancerGroups, workspaces, workspaceMembers]) => [
    name,
    {
      memoryMb: gb * 1024,
      requestsPerMinute,
      blobGb,
      snapshotsPerDay: gb * 8,
      balancerGroups,
      workspaces,
      workspaceMembers,
      historyDays: historyDays[tierOf(name)] ?? 1,
    },
  ]),
)

const figures = [
  'memoryMb',
  'requestsPerMinute',
  'blobGb',
  'snapshotsPerDay',
  'balancerGroups',
  'workspaces',
  'workspaceMembers',
  'historyDays',
] as const

/** Reads an operator's table: a JSON object of plans by name. Throws an Error that names the plan and the figure at fault. */
export function parsePlans(text: string): Plans {
  const table: unknown = JSON.parse(text)
  if (typeof table !== 'object' || table === null || Array.isArray(table))
    throw new Error('The plans file is not a JSON object.')
  const plans = new Map(Object.entries(table) as [string, Plan][])
  if (!plans.has('free')) throw new Error('The plans file has no plan "free", which every account falls back to.')
  for (const [name, plan] of plans) {
    if (plan && plan.historyDays === undefined) plan.historyDays = 1 // tables that were written before it existed
    for (const figure of figures)
      if (!Number.isFinite(plan?.[figure]) || plan[figure] < 0)
        throw new Error(`Plan "${name}": ${figure} takes a number from 0.`)
  }
  return plans
}

/** The family of a plan, which options go by: what stands before the first hyphen (`hobby`, `standard`, `pro`, `enterprise`, `free`). */
export function tierOf(planName: string): string {
  return planName.split('-')[0] as string
}

/** Names of the plans that are paid for. */
export const paidPlans = (plans: Plans): string[] => [...plans.keys()].filter(name => name !== 'free')

/** The plan an account has at a moment: its own until it ends, then free. A name that the table has lost counts as free. */
export function planOf(
  plans: Plans,
  account: { plan: string; plan_ends_at: Date | null },
  now: Date,
): { name: string; plan: Plan } {
  const over = account.plan_ends_at !== null && account.plan_ends_at <= now
  const plan = over ? undefined : plans.get(account.plan)
  return plan ? { name: account.plan, plan } : { name: 'free', plan: plans.get('free')! }
}
