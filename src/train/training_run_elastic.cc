// The part of TrainingRun in which groups come and go.
#include <signal.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "member/membership.h"
#include "train/training_run.h"

namespace paceline::train {

namespace {

// Somebody else is the cause; with others, or with the same again, the training can go on.
bool Recoverable(Code code) {
  switch (code) {
    case Code::kPeerLost:
    case Code::kTimeout:
    case Code::kAborted:
    case Code::kStaleGeneration:
    case Code::kUnavailable:
    case Code::kProtocol: return true;
    default: return false;
  }
}

}  // namespace

bool TrainingRun::LeaveIfAsked() {
  if (environment_.elastic == nullptr) return false;
  if (environment_.cut && position_.next_step.value() >= environment_.cut->step) {
    environment_.elastic->agent().CutOff(environment_.cut->duration);
    environment_.cut.reset();
  }
  if (asked_to_leave_) return false;
  if (environment_.stop_signal() != SIGTERM) return false;
  asked_to_leave_ = true;
  environment_.elastic->agent().Leave();
  return true;
}

bool TrainingRun::ViewShouldEnd() const {
  return environment_.elastic != nullptr && environment_.elastic->agent().WantsStepEnd();
}

Result<job::RunSummary> TrainingRun::RunElastic() {
  job::ElasticGroup& group = *environment_.elastic;
  run_started_ = environment_.clock.Now();
  for (;;) {
    PACELINE_ASSIGN(const member::Directive next, group.Next([&] {
      LeaveIfAsked();
      return environment_.stop_signal() == SIGINT;
    }));
    if (next.release) return Go(*next.release);
    const Status ended = WorkInView(*next.view);
    const bool complete = ended.ok() && !view_ended_;
    if (complete) {
      group.agent().Finish({position_.next_step, agreed_to_stop_});
      return Summarize();
    }
    PACELINE_TRY(trainer_->Attach(nullptr));
    environment_.engine = nullptr;
    if (!ended.ok()) DumpFlight(ended);
    if (!ended.ok() && !Recoverable(ended.code())) return ended;
    PACELINE_TRY(group.GiveUp(ended));
  }
}

Status TrainingRun::WorkInView(const wire::Assignment& view) {
  job::ElasticGroup& group = *environment_.elastic;
  environment_.engine = &group.engine();
  environment_.group = group.description();
  generation_ = view.generation;
  agreed_to_stop_ = view_ended_ = false;
  evaluation_.reset();  // all workers agree on what is left to do
  PACELINE_TRY(trainer_->Attach(environment_.engine));
  PACELINE_TRY(TakeState(view));
  PACELINE_ASSIGN(const auto loader,
                  data::BatchLoader::Create(*data_.train, plan_, LoaderOf(position_.next_step)));
  const Status trained = TrainUntilEnd(*loader);
  if (view_ended_) return {};
  return FinishTraining(trained);
}

// Everybody continues from where the most advanced one is.
Status TrainingRun::TakeState(const wire::Assignment& view) {
  const member::StateSource source = member::ChooseStateSource(view);
  if (Leads() && !events_) PACELINE_TRY(OpenDirectory());
  if (source.from_disk && Leads()) PACELINE_TRY(RestoreFromDisk());
  const bool transfer = source.from_disk ? saved_at_.has_value() : source.transfer;
  PACELINE_TRY(SharePosition(source.root, transfer));
  PACELINE_TRY(trainer_->ShareOrder(source.root));
  if (source.transfer) PACELINE_TRY(trainer_->VerifyReplicas());
  environment_.elastic->agent().Commit(position_.next_step);
  if (!started_) {
    first_step_ = position_.next_step;
    first_sample_ = position_.samples;
    started_ = true;
  }
  return Leads() ? RecordView(view, source.from_disk) : Status();
}

// The step of its base is committed, even if the worker that kept the records before died before it
// wrote that down.
Status TrainingRun::RecordView(const wire::Assignment& view, bool from_disk) {
  if (from_disk) PACELINE_TRY(RecordStart());
  std::vector<JsonObject> members;
  const algo::ShardLayout& layout = environment_.engine->layout();
  for (const wire::Assignment::Seat& seat : view.seats) {
    members.push_back(job::SeatRecord(seat, layout));
  }
  Record("view", JsonObject()
                     .Add("step", position_.next_step.value())
                     .Add("members", members)
                     .Add("why", view.why));
  if (view.generation > Generation(1)) {
    Note(fmt::format("generation {} at step {}: {} worker{} ({})", view.generation.value(),
                     position_.next_step.value(), view.seats.size(),
                     view.seats.size() == 1 ? "" : "s", view.why));
  }
  return {};
}

// What this worker did last, for whoever wants to know why.
void TrainingRun::DumpFlight(const Status& why) {
  PACELINE_LOG(Info, "generation {} ended: {}", generation_.value(), why.message());
  const std::string path = fmt::format("{}/flight-{}.jsonl", directory_.path(),
                                       environment_.elastic->agent().member().value());
  const Status dumped =
      recorder_.Dump(path, fmt::format("generation {}: {}", generation_.value(), why.message()));
  if (!dumped.ok()) PACELINE_LOG(Warning, "{}", dumped.message());
}

// The coordinator has no more work for this one.
Result<job::RunSummary> TrainingRun::Go(const wire::Release& release) {
  PACELINE_LOG(Info, "released: {} ({})", release.why, CodeName(release.code));
  if (release.save && started_ && environment_.elastic->agent().Trusted()) {
    if (!events_) PACELINE_TRY(OpenDirectory());
    PACELINE_TRY(SaveNow());
  }
  if (release.code == Code::kFenced) {
    return Status::Error(
        release.code,
        fmt::format("worker {} was given up at step {}: {}; the others go on without it",
                    environment_.elastic->agent().member().value(), position_.next_step.value(),
                    release.why));
  }
  if (release.code != Code::kOk) return Status::Error(release.code, release.why);
  return Summarize();
}

}  // namespace paceline::train
