import { type StoppedDatabases, stoppedDatabases } from './stopped-databases.ts'
import type { MailTemplate } from './template.ts'

/** A plan that has ended. */
export type PlanEnded = { plan: string } & StoppedDatabases

export const planEnded: MailTemplate<PlanEnded> = {
  'pt-BR': ({ plan, databases, databaseCount }) => ({
    subject: `Seu plano ${plan} terminou`,
    text: `Seu plano ${plan} terminou, e as suas aplicações são paradas agora.

Nada é apagado. Assim que a conta tiver um plano novamente, você pode iniciá-las.${stoppedDatabases('pt-BR', 'ended', { databases, databaseCount })}`,
  }),
  'en-US': ({ plan, databases, databaseCount }) => ({
    subject: `Your plan ${plan} has ended`,
    text: `Your plan ${plan} has ended, and your applications are being stopped.

Nothing is deleted. As soon as the account has a plan again, you can start them.${stoppedDatabases('en-US', 'ended', { databases, databaseCount })}`,
  }),
  'es-ES': ({ plan, databases, databaseCount }) => ({
    subject: `Tu plan ${plan} ha terminado`,
    text: `Tu plan ${plan} ha terminado, y tus aplicaciones se detienen ahora.

No se borra nada. En cuanto la cuenta vuelva a tener un plan, puedes iniciarlas.${stoppedDatabases('es-ES', 'ended', { databases, databaseCount })}`,
  }),
  'zh-CN': ({ plan, databases, databaseCount }) => ({
    subject: `您的 ${plan} 套餐已到期`,
    text: `您的 ${plan} 套餐已到期，您的应用现在将被停止。

不会删除任何数据。账户重新拥有套餐后，您即可启动应用。${stoppedDatabases('zh-CN', 'ended', { databases, databaseCount })}`,
  }),
  'ja-JP': ({ plan, databases, databaseCount }) => ({
    subject: `プラン ${plan} が終了しました`,
    text: `ご利用のプラン ${plan} が終了したため、アプリケーションを停止します。

データが削除されることはありません。アカウントが再びプランを持てば、すぐに起動できます。${stoppedDatabases('ja-JP', 'ended', { databases, databaseCount })}`,
  }),
  'fr-FR': ({ plan, databases, databaseCount }) => ({
    subject: `Votre formule ${plan} est terminée`,
    text: `Votre formule ${plan} est terminée, et vos applications sont maintenant arrêtées.

Rien n'est supprimé. Dès que le compte aura de nouveau une formule, vous pourrez les démarrer.${stoppedDatabases('fr-FR', 'ended', { databases, databaseCount })}`,
  }),
  'de-DE': ({ plan, databases, databaseCount }) => ({
    subject: `Ihr Tarif ${plan} ist beendet`,
    text: `Ihr Tarif ${plan} ist beendet, und Ihre Anwendungen werden jetzt angehalten.

Es wird nichts gelöscht. Sobald das Konto wieder einen Tarif hat, können Sie sie starten.${stoppedDatabases('de-DE', 'ended', { databases, databaseCount })}`,
  }),
  'it-IT': ({ plan, databases, databaseCount }) => ({
    subject: `Il tuo piano ${plan} è scaduto`,
    text: `Il tuo piano ${plan} è scaduto, e le tue applicazioni vengono fermate ora.

Non viene cancellato nulla. Appena l'account avrà di nuovo un piano, potrai avviarle.${stoppedDatabases('it-IT', 'ended', { databases, databaseCount })}`,
  }),
}
