import { nginxEdge } from '../../activities/edge/nginx.ts'
import type { Edge } from '../../activities/edge/port.ts'
import type { Db } from '../../db/database.ts'
import { listSharedEdgeNames } from '../../db/domains/edges.ts'
import { thisMachine } from '../../lib/machine.ts'
import type { Config } from '../../policy/config.ts'
import { namesWithWrongRoute } from '../../workers/loops/route-table.ts'
import type { Finding } from './findings.ts'
import type { Manner } from './manner.ts'

/** Whether the names of running applications lead to them. */
export async function routeFinding(
  db: Db,
  manner: Manner,
  { edge: { controlSocket }, appsDomain }: Pick<Config, 'edge' | 'appsDomain'>,
  edge: Edge = nginxEdge(controlSocket),
): Promise<Finding> {
  const name = 'routes'
  const amiss = await namesWithWrongRoute({ db, edge, appsDomain, machine: thisMachine() })
  const [first] = amiss
  const total = `${(await edge.listRoutes()).length} in the proxy`
  if (first === undefined) return { name, state: `${total}; every running application has its own` }
  return {
    name,
    state: `${total}; ${amiss.length} WRONG, the first is ${first}`,
    remedy: `they are retried continuously; if they stay wrong: ${manner.logs('worker')}`,
  }
}

/** Proxies that their operator calls the same; none where every name is one proxy's. */
export async function edgeNameFindings(db: Db): Promise<Finding[]> {
  const shared = await listSharedEdgeNames(db)
  return shared.map(name => ({
    name: 'names of proxies',
    state: `several live proxies are called ${name}: the log and the performance of applications cannot tell them apart`,
    remedy: 'give each of them its own EDGE_NAME',
  }))
}
