import { nginxEdge } from '../activities/edge.nginx.ts'
import type { Edge } from '../activities/edge.ts'
import type { Db } from '../db/database.ts'
import type { Config } from '../policy/config.ts'
import { namesAmiss } from '../workers/route-keeper.ts'

/** Whether the names of applications that run lead to them, in words. */
export async function routeState(
  db: Db,
  { edge: { controlSocket }, appsDomain }: Pick<Config, 'edge' | 'appsDomain'>,
  edge: Edge = nginxEdge(controlSocket),
): Promise<string> {
  const amiss = await namesAmiss({ db, edge, appsDomain })
  const [first] = amiss
  const many = `${(await edge.listRoutes()).length} in the proxy`
  if (first === undefined) return `${many}; every application that runs has its own`
  return `${many}; ${amiss.length} NOT AS THEY SHOULD BE, the first is ${first} - if that stays so, SEE berth logs worker`
}
