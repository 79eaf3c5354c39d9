import { MiB } from '../../lib/bytes.ts'
import { memoryAlertRules } from '../../policy/apps/memory-alerts.ts'
import { type NewMail, queueMail } from '../accounts/mails.ts'
import type { Db } from '../database.ts'
import type { HostApp } from './apps.ts'

type Alert = Pick<NewMail<'memory-high'>, 'template' | 'fields'> | Pick<NewMail<'memory-out'>, 'template' | 'fields'>

/** Mails the owner about an application's memory; false when that was done within the last day. */
async function alertOwner(db: Db, { id, owner_id: userId }: HostApp, alert: Alert): Promise<boolean> {
  const { onceInHours } = memoryAlertRules
  return queueMail(db, { userId, ...alert, once: `memory/${id}`, onceInHours })
}

/** The application stays near its limit. */
export function alertHighMemory(db: Db, app: HostApp, usedBytes: number): Promise<boolean> {
  const usedMb = Math.round(usedBytes / MiB)
  const percent = Math.min(100, Math.round((usedMb / app.ram_mb) * 100))
  return alertOwner(db, app, {
    template: 'memory-high',
    fields: { app: app.name, usedMb, limitMb: app.ram_mb, percent },
  })
}

/** The application was killed because it used more than its limit. */
export function alertOutOfMemory(db: Db, app: HostApp): Promise<boolean> {
  return alertOwner(db, app, { template: 'memory-out', fields: { app: app.name, limitMb: app.ram_mb } })
}
