import { z } from 'zod'
import { listAudit } from '../../../db/audit.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { isoTime, pageLimit } from '../../pipeline/fields.ts'

const text = z.string()

const entry = z.object({
  at: isoTime,
  actor: text,
  action: text,
  resource: text.nullable(),
  result: text,
  operation: text.nullable(),
})

/** Contract 3.13; the plan decides how many days it covers (contract 11.1). A limited key sees the entries of its resources. */
export const listAuditRecord = endpoint({
  name: 'account.audit',
  method: 'GET',
  path: '/v2/account/audit',
  summary: 'List what the account did, and what was done to its resources',
  auth: { scope: 'account:read' },
  query: z.object({
    limit: pageLimit(50),
    cursor: z
      .string()
      .regex(/^[1-9]\d{0,17}$/)
      .optional()
      .meta({ description: 'The cursor of the previous page; older entries follow.' }),
  }),
  response: z.object({ entries: z.array(entry), cursor: text.optional() }),
  async handle({ caller, query: { limit, cursor } }, { db }) {
    const page = { days: caller.plan.historyDays, limit: limit + 1, before: cursor, resources: caller.resources }
    const rows = await listAudit(db, caller.user.id, page)
    const entries = rows.slice(0, limit)
    return {
      entries: entries.map(row => ({
        at: row.at.toISOString(),
        // The platform does not reveal which of its operators it was.
        actor: row.actor.startsWith('operator:') ? 'operator' : row.actor,
        action: row.action,
        resource: row.resource,
        result: row.result,
        operation: row.operation_id,
      })),
      cursor: rows.length > limit ? entries.at(-1)?.id : undefined,
    }
  },
})
