import { z } from 'zod'

/** Max of a Postgres integer; MB times bytes stay exact in a JavaScript number. */
const maxFigure = 2_147_483_647
const figure = z.int().min(0).max(maxFigure)

/** What a plan grants (contract 11.1). Sizes carry their unit; counts are per account. */
const planSchema = z.strictObject({
  memoryMb: figure,
  requestsPerMinute: figure,
  blobGb: figure,
  snapshotsPerDay: figure,
  balancerGroups: figure,
  workspaces: figure,
  workspaceMembers: figure,
  /** Days of the audit record that the account can see. */
  historyDays: figure,
  s3RequestsPer10s: figure,
  /** Of the AI gateway: tokens per day, per request and per answer, concurrent requests, seconds between requests. */
  aiTokensPerDay: figure,
  aiContextTokens: figure,
  aiOutputTokens: figure,
  aiConcurrent: figure,
  aiPacingSeconds: figure,
})

export type Plan = z.infer<typeof planSchema>

/** Plans by name, in the order of downgrades. */
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

type TierFigures = Pick<Plan, 'historyDays' | 's3RequestsPer10s' | Extract<keyof Plan, `ai${string}`>>

const tier = (history: number, s3: number, ai: readonly [number, number, number, number, number]): TierFigures => ({
  historyDays: history,
  s3RequestsPer10s: s3,
  aiTokensPerDay: ai[0],
  aiContextTokens: ai[1],
  aiOutputTokens: ai[2],
  aiConcurrent: ai[3],
  aiPacingSeconds: ai[4],
})
const noAi = [0, 0, 0, 0, 0] as const
const freeTier = tier(1, 0, noAi)

/** Figures that depend on the family of a plan (contract 11.5). */
const tiers: Record<string, TierFigures> = {
  hobby: tier(1, 100, noAi),
  standard: tier(2, 200, [500_000, 16_384, 4096, 1, 4]),
  pro: tier(7, 400, [2_000_000, 24_576, 6144, 1, 2]),
  enterprise: tier(30, 600, [5_000_000, 32_768, 8192, 2, 0]),
}

const ofTier = (planName: string): TierFigures => tiers[tierOf(planName)] ?? freeTier

/** The built-in table. Snapshots per day are memory / 256 MB x 2. */
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
      ...ofTier(name),
    },
  ]),
)

const nameForm = /^[a-z][a-z0-9-]{0,39}$/

/** Reads an operator's table: a JSON object of plans by name. Throws an Error that names the wrong plan and figure. */
export function parsePlans(text: string): Plans {
  const table = objectOf(text)
  const plans = new Map(Object.entries(table).map(([name, row]) => [name, planOfRow(name, row)]))
  if (!plans.has('free')) throw new Error('There is no plan "free", which every account falls back to.')
  return plans
}

function objectOf(text: string): Record<string, unknown> {
  let table: unknown
  try {
    table = JSON.parse(text.replace(/^\ufeff/, ''))
  } catch (error) {
    throw new Error(`It is not JSON: ${(error as Error).message}`)
  }
  if (!isObject(table)) throw new Error('It is not a JSON object of plans by name.')
  return table
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function planOfRow(name: string, row: unknown): Plan {
  if (!nameForm.test(name))
    throw new Error(
      `Plan ${JSON.stringify(name)}: a name must begin with a letter and be up to 40 of a-z, 0-9 and "-".`,
    )
  if (!isObject(row)) throw new Error(`Plan "${name}" is not an object of figures.`)
  // An older table without these figures gets those of the plan's family.
  const { data, error } = planSchema.safeParse({ ...ofTier(name), ...row })
  if (data) return withUsableModels(name, data)
  const unknown = error.issues.find(issue => issue.code === 'unrecognized_keys')
  if (unknown)
    throw new Error(
      `Plan "${name}" has no figure ${JSON.stringify(unknown.keys[0])}. Figures: ${Object.keys(planSchema.shape).join(', ')}`,
    )
  throw new Error(`Plan "${name}": ${String(error.issues[0]!.path[0])} must be a whole number from 0 to ${maxFigure}.`)
}

/** A plan with tokens also needs what a call takes: with a 0 there, its calls would be refused forever with a retry hint. */
function withUsableModels(name: string, plan: Plan): Plan {
  const needed = ['aiContextTokens', 'aiOutputTokens', 'aiConcurrent'] as const
  const missing = plan.aiTokensPerDay > 0 && needed.find(figure => plan[figure] === 0)
  if (missing) throw new Error(`Plan "${name}": ${missing} must be at least 1, as aiTokensPerDay is not 0.`)
  return plan
}

/** The family of a plan, which decides about options: its name up to the first hyphen (`hobby`, `standard`, `pro`, `enterprise`, `free`). */
export function tierOf(planName: string): string {
  return planName.split('-')[0] as string
}

/** Contract 12.1: databases come with the plans that workspaces come with. */
export const includesDatabases = ({ workspaces }: Plan): boolean => workspaces > 0

/** Contract 3.7: so do custom domains. */
export const includesCustomDomains = ({ workspaces }: Plan): boolean => workspaces > 0

/** Log lines and latencies of requests come with Pro and Enterprise. */
export const includesNetworkDetails = (planName: string): boolean => ['pro', 'enterprise'].includes(tierOf(planName))

/** Names of the paid plans. */
export const paidPlans = (plans: Plans): string[] => [...plans.keys()].filter(name => name !== 'free')

/** The plan of an account at a moment: its own until that ends, then free. A plan that is not in the table counts as free. */
export function planOf(
  plans: Plans,
  account: { plan: string; plan_ends_at: Date | null },
  now: Date,
): { name: string; plan: Plan } {
  const hasEnded = account.plan_ends_at !== null && account.plan_ends_at <= now
  const plan = hasEnded ? undefined : plans.get(account.plan)
  return plan ? { name: account.plan, plan } : { name: 'free', plan: plans.get('free')! }
}
