import { type StoppedDatabases, stoppedDatabases } from './stopped-databases.ts'
import type { MailTemplate } from './template.ts'

/** A plan that ends soon. `endsAt` is a day and a time in UTC, as `2030-01-31 12:00`. */
export type PlanEnding = { plan: string; endsAt: string } & StoppedDatabases

export const planEnding: MailTemplate<PlanEnding> = {
  'pt-BR': ({ plan, endsAt, databases, databaseCount }) => ({
    subject: `Seu plano ${plan} está terminando`,
    text: `Seu plano ${plan} termina em ${endsAt} (UTC).

Depois disso, suas aplicações são paradas e não podem ser iniciadas até que a conta tenha um plano novamente. Nada é apagado.${stoppedDatabases('pt-BR', 'ending', { databases, databaseCount })}`,
  }),
  'en-US': ({ plan, endsAt, databases, databaseCount }) => ({
    subject: `Your plan ${plan} is about to end`,
    text: `Your plan ${plan} ends on ${endsAt} (UTC).

After that, your applications will be stopped and cannot be started until the account has a plan again. Nothing will be deleted.${stoppedDatabases('en-US', 'ending', { databases, databaseCount })}`,
  }),
  'es-ES': ({ plan, endsAt, databases, databaseCount }) => ({
    subject: `Tu plan ${plan} está a punto de terminar`,
    text: `Tu plan ${plan} termina el ${endsAt} (UTC).

Después, tus aplicaciones se detienen y no se pueden iniciar hasta que la cuenta vuelva a tener un plan. No se borra nada.${stoppedDatabases('es-ES', 'ending', { databases, databaseCount })}`,
  }),
  'zh-CN': ({ plan, endsAt, databases, databaseCount }) => ({
    subject: `您的 ${plan} 套餐即将到期`,
    text: `您的 ${plan} 套餐将于 ${endsAt} (UTC) 到期。

到期后，您的应用将被停止，在账户重新拥有套餐之前无法启动。不会删除任何数据。${stoppedDatabases('zh-CN', 'ending', { databases, databaseCount })}`,
  }),
  'ja-JP': ({ plan, endsAt, databases, databaseCount }) => ({
    subject: `プラン ${plan} の期限が近づいています`,
    text: `ご利用のプラン ${plan} は ${endsAt} (UTC) に終了します。

終了後、アプリケーションは停止され、アカウントが再びプランを持つまで起動できません。データが削除されることはありません。${stoppedDatabases('ja-JP', 'ending', { databases, databaseCount })}`,
  }),
  'fr-FR': ({ plan, endsAt, databases, databaseCount }) => ({
    subject: `Votre formule ${plan} se termine bientôt`,
    text: `Votre formule ${plan} se termine le ${endsAt} (UTC).

Ensuite, vos applications seront arrêtées et ne pourront être démarrées tant que le compte n'aura pas de nouveau une formule. Rien n'est supprimé.${stoppedDatabases('fr-FR', 'ending', { databases, databaseCount })}`,
  }),
  'de-DE': ({ plan, endsAt, databases, databaseCount }) => ({
    subject: `Ihr Tarif ${plan} endet bald`,
    text: `Ihr Tarif ${plan} endet am ${endsAt} (UTC).

Danach werden Ihre Anwendungen angehalten und können erst wieder gestartet werden, wenn das Konto wieder einen Tarif hat. Es wird nichts gelöscht.${stoppedDatabases('de-DE', 'ending', { databases, databaseCount })}`,
  }),
  'it-IT': ({ plan, endsAt, databases, databaseCount }) => ({
    subject: `Il tuo piano ${plan} sta per scadere`,
    text: `Il tuo piano ${plan} scade il ${endsAt} (UTC).

Dopo, le tue applicazioni vengono fermate e non possono essere avviate finché l'account non ha di nuovo un piano. Non viene cancellato nulla.${stoppedDatabases('it-IT', 'ending', { databases, databaseCount })}`,
  }),
}
