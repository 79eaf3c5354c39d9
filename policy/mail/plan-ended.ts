import type { MailTemplate } from './template.ts'

/** A plan that has ended. */
export type PlanEnded = { plan: string }

export const planEnded: MailTemplate<PlanEnded> = {
  'pt-BR': ({ plan }) => ({
    subject: `Seu plano ${plan} terminou`,
    text: `Seu plano ${plan} terminou, e as suas aplicações são paradas agora.

Nada é apagado. Assim que a conta tiver um plano novamente, você pode iniciá-las.`,
  }),
  'en-US': ({ plan }) => ({
    subject: `Your plan ${plan} has ended`,
    text: `Your plan ${plan} has ended, and your applications are being stopped.

Nothing is deleted. As soon as the account has a plan again, you can start them.`,
  }),
  'es-ES': ({ plan }) => ({
    subject: `Tu plan ${plan} ha terminado`,
    text: `Tu plan ${plan} ha terminado, y tus aplicaciones se detienen ahora.

No se borra nada. En cuanto la cuenta vuelva a tener un plan, puedes iniciarlas.`,
  }),
  'zh-CN': ({ plan }) => ({
    subject: `您的 ${plan} 套餐已到期`,
    text: `您的 ${plan} 套餐已到期，您的应用现在将被停止。

不会删除任何数据。账户重新拥有套餐后，您即可启动应用。`,
  }),
  'ja-JP': ({ plan }) => ({
    subject: `プラン ${plan} が終了しました`,
    text: `ご利用のプラン ${plan} が終了したため、アプリケーションを停止します。

データが削除されることはありません。アカウントが再びプランを持てば、すぐに起動できます。`,
  }),
  'fr-FR': ({ plan }) => ({
    subject: `Votre formule ${plan} est terminée`,
    text: `Votre formule ${plan} est terminée, et vos applications sont maintenant arrêtées.

Rien n'est supprimé. Dès que le compte aura de nouveau une formule, vous pourrez les démarrer.`,
  }),
  'de-DE': ({ plan }) => ({
    subject: `Ihr Tarif ${plan} ist beendet`,
    text: `Ihr Tarif ${plan} ist beendet, und Ihre Anwendungen werden jetzt angehalten.

Es wird nichts gelöscht. Sobald das Konto wieder einen Tarif hat, können Sie sie starten.`,
  }),
  'it-IT': ({ plan }) => ({
    subject: `Il tuo piano ${plan} è scaduto`,
    text: `Il tuo piano ${plan} è scaduto, e le tue applicazioni vengono fermate ora.

Non viene cancellato nulla. Appena l'account avrà di nuovo un piano, potrai avviarle.`,
  }),
}
