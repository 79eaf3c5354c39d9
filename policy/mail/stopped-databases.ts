import { automaticSnapshotRules } from '../rounds.ts'
import type { MailLocale } from './template.ts'

/** Databases that the end of a plan stops: their names, or the first of them, and their number. */
export type StoppedDatabases = { databases: string; databaseCount: number }

type Words = (stopped: StoppedDatabases) => string

const days = automaticSnapshotRules.daysAfterPlan

/** For one database, and for several. */
const paragraphs: Record<MailLocale, Record<'ending' | 'ended', { one: Words; more: Words }>> = {
  'pt-BR': {
    ending: {
      one: ({ databases }) =>
        `Seu banco de dados "${databases}" também será parado. Ele será mantido, e os snapshots diários dele continuarão por ${days} dias.`,
      more: ({ databases, databaseCount }) =>
        `Seus ${databaseCount} bancos de dados também serão parados: ${databases}. Eles serão mantidos, e os snapshots diários deles continuarão por ${days} dias.`,
    },
    ended: {
      one: ({ databases }) =>
        `Seu banco de dados "${databases}" também é parado agora. Ele é mantido, e os snapshots diários dele continuam por ${days} dias.`,
      more: ({ databases, databaseCount }) =>
        `Seus ${databaseCount} bancos de dados também são parados agora: ${databases}. Eles são mantidos, e os snapshots diários deles continuam por ${days} dias.`,
    },
  },
  'en-US': {
    ending: {
      one: ({ databases }) =>
        `Your database "${databases}" will be stopped too. It will be kept, and its daily snapshots will continue for ${days} days.`,
      more: ({ databases, databaseCount }) =>
        `Your ${databaseCount} databases will be stopped too: ${databases}. They will be kept, and their daily snapshots will continue for ${days} days.`,
    },
    ended: {
      one: ({ databases }) =>
        `Your database "${databases}" is being stopped too. It is kept, and its daily snapshots continue for ${days} days.`,
      more: ({ databases, databaseCount }) =>
        `Your ${databaseCount} databases are being stopped too: ${databases}. They are kept, and their daily snapshots continue for ${days} days.`,
    },
  },
  'es-ES': {
    ending: {
      one: ({ databases }) =>
        `Tu base de datos «${databases}» también se detendrá. Se conservará, y sus snapshots diarios continuarán durante ${days} días.`,
      more: ({ databases, databaseCount }) =>
        `Tus ${databaseCount} bases de datos también se detendrán: ${databases}. Se conservarán, y sus snapshots diarios continuarán durante ${days} días.`,
    },
    ended: {
      one: ({ databases }) =>
        `Tu base de datos «${databases}» también se detiene ahora. Se conserva, y sus snapshots diarios continúan durante ${days} días.`,
      more: ({ databases, databaseCount }) =>
        `Tus ${databaseCount} bases de datos también se detienen ahora: ${databases}. Se conservan, y sus snapshots diarios continúan durante ${days} días.`,
    },
  },
  'zh-CN': {
    ending: {
      one: ({ databases }) => `您的数据库“${databases}”届时也将被停止。数据库会予以保留，每日快照将继续 ${days} 天。`,
      more: ({ databases, databaseCount }) =>
        `您的 ${databaseCount} 个数据库届时也将被停止：${databases}。这些数据库会予以保留，每日快照将继续 ${days} 天。`,
    },
    ended: {
      one: ({ databases }) => `您的数据库“${databases}”现在也将被停止。数据库会予以保留，每日快照将继续 ${days} 天。`,
      more: ({ databases, databaseCount }) =>
        `您的 ${databaseCount} 个数据库现在也将被停止：${databases}。这些数据库会予以保留，每日快照将继续 ${days} 天。`,
    },
  },
  'ja-JP': {
    ending: {
      one: ({ databases }) =>
        `データベース「${databases}」も停止されます。データベースは保持され、毎日のスナップショットは ${days} 日間続きます。`,
      more: ({ databases, databaseCount }) =>
        `${databaseCount} 個のデータベースも停止されます: ${databases}。データベースは保持され、毎日のスナップショットは ${days} 日間続きます。`,
    },
    ended: {
      one: ({ databases }) =>
        `データベース「${databases}」も停止します。データベースは保持され、毎日のスナップショットは ${days} 日間続きます。`,
      more: ({ databases, databaseCount }) =>
        `${databaseCount} 個のデータベースも停止します: ${databases}。データベースは保持され、毎日のスナップショットは ${days} 日間続きます。`,
    },
  },
  'fr-FR': {
    ending: {
      one: ({ databases }) =>
        `Votre base de données « ${databases} » sera arrêtée aussi. Elle sera conservée, et ses instantanés quotidiens continueront pendant ${days} jours.`,
      more: ({ databases, databaseCount }) =>
        `Vos ${databaseCount} bases de données seront arrêtées aussi : ${databases}. Elles seront conservées, et leurs instantanés quotidiens continueront pendant ${days} jours.`,
    },
    ended: {
      one: ({ databases }) =>
        `Votre base de données « ${databases} » est maintenant arrêtée aussi. Elle est conservée, et ses instantanés quotidiens continuent pendant ${days} jours.`,
      more: ({ databases, databaseCount }) =>
        `Vos ${databaseCount} bases de données sont maintenant arrêtées aussi : ${databases}. Elles sont conservées, et leurs instantanés quotidiens continuent pendant ${days} jours.`,
    },
  },
  'de-DE': {
    ending: {
      one: ({ databases }) =>
        `Ihre Datenbank „${databases}“ wird dann ebenfalls angehalten. Sie bleibt erhalten, und ihre täglichen Snapshots laufen ${days} Tage lang weiter.`,
      more: ({ databases, databaseCount }) =>
        `Ihre ${databaseCount} Datenbanken werden dann ebenfalls angehalten: ${databases}. Sie bleiben erhalten, und ihre täglichen Snapshots laufen ${days} Tage lang weiter.`,
    },
    ended: {
      one: ({ databases }) =>
        `Ihre Datenbank „${databases}“ wird jetzt ebenfalls angehalten. Sie bleibt erhalten, und ihre täglichen Snapshots laufen ${days} Tage lang weiter.`,
      more: ({ databases, databaseCount }) =>
        `Ihre ${databaseCount} Datenbanken werden jetzt ebenfalls angehalten: ${databases}. Sie bleiben erhalten, und ihre täglichen Snapshots laufen ${days} Tage lang weiter.`,
    },
  },
  'it-IT': {
    ending: {
      one: ({ databases }) =>
        `Anche il tuo database "${databases}" verrà fermato. Verrà conservato, e i suoi snapshot giornalieri continueranno per ${days} giorni.`,
      more: ({ databases, databaseCount }) =>
        `Anche i tuoi ${databaseCount} database verranno fermati: ${databases}. Verranno conservati, e i loro snapshot giornalieri continueranno per ${days} giorni.`,
    },
    ended: {
      one: ({ databases }) =>
        `Anche il tuo database "${databases}" viene fermato ora. Viene conservato, e i suoi snapshot giornalieri continuano per ${days} giorni.`,
      more: ({ databases, databaseCount }) =>
        `Anche i tuoi ${databaseCount} database vengono fermati ora: ${databases}. Vengono conservati, e i loro snapshot giornalieri continuano per ${days} giorni.`,
    },
  },
}

/** The paragraph of a mail about databases that the end of a plan stops, after an empty line; nothing when there are none. */
export function stoppedDatabases(locale: MailLocale, when: 'ending' | 'ended', stopped: StoppedDatabases): string {
  // Missing in mails that an earlier version has queued.
  if (!stopped.databaseCount) return ''
  const { one, more } = paragraphs[locale][when]
  return `\n\n${stopped.databaseCount === 1 ? one(stopped) : more(stopped)}`
}
