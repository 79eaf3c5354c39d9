import { pointInTimeRules, walNumberAt } from '../../../../../policy/databases/point-in-time.ts'
import { type PointInTimeEngine, recoveryNames, recoveryPlace } from '../../../point-in-time/port.ts'
import { places } from '../../../port.ts'
import { asPlatform, postgresEngine } from '../postgres.ts'
import { dataFolder } from '../postgres-settings.ts'
import { scripts } from './archive-script.ts'
import { readBaseBackup } from './base-backup.ts'

/** Time to write the newest changes, which waits for the disk. */
const endSeconds = 30

export const postgresPointInTime: PointInTimeEngine = {
  backup: (engine, take) =>
    asPlatform(engine, { seconds: pointInTimeRules.maxBackupSeconds, replication: true }, client =>
      readBaseBackup(client, take),
    ),

  now: engine =>
    asPlatform(engine, {}, async client => (await client.query('select clock_timestamp() as now')).rows[0].now as Date),

  endFile: engine =>
    asPlatform(engine, { seconds: endSeconds }, async client => {
      // A commit of its own: recovery ends at the first commit after its target.
      await client.query(`select pg_logical_emit_message(true, 'berth', 'end')`)
      const { rows } = await client.query(
        `select (pg_switch_wal() - 1)::text as position, left(pg_walfile_name(pg_current_wal_lsn()), 8) as timeline`,
      )
      return { timeline: Number.parseInt(rows[0].timeline, 16), number: walNumberAt(rows[0].position) }
    }),

  isRecovered: (engine, timeline) =>
    asPlatform(engine, {}, async client => {
      const { rows } = await client.query(
        `select case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end as timeline`,
      )
      return rows[0].timeline !== null && Number.parseInt(rows[0].timeline, 16) > timeline
    }),

  unpack() {
    const folder = `${dataFolder}.new`
    const steps = [
      `rm -rf ${dataFolder} ${folder}`,
      `mkdir -m 700 ${folder}`,
      `tar -xzf ${recoveryPlace}/${recoveryNames.backup} -C ${folder} --no-same-owner`,
      `rm ${recoveryPlace}/${recoveryNames.backup}`,
      `touch ${folder}/recovery.signal`,
      `mkdir -p ${recoveryPlace}/${recoveryNames.wal}`,
      `mv -T ${folder} ${dataFolder}`,
    ]
    return ['sh', '-ec', steps.join('\n')]
  },

  recover: (traits, to) => [
    ...postgresEngine.command(traits),
    ...Object.entries({
      restore_command: `sh ${places.settings}/${scripts.fetch} %f %p`,
      // Its own timeline: later ones are of restores that were made from it.
      recovery_target_timeline: 'current',
      recovery_target_action: 'promote',
      // Abbreviations of zones, as `Z` is one, are not known yet.
      ...(to && { recovery_target_time: to.toISOString().replace('Z', '+00'), recovery_target_inclusive: 'on' }),
      // It answers once it is at its target, not before.
      hot_standby: 'off',
    }).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ],
}
